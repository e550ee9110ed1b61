// Package tinyelf writes the smallest possible programs, of a few system calls. Some exit at once
// with a given code: such a process lives for some ten microseconds, much shorter than one with a
// runtime or a loader. Others wait or read before they exit.
package tinyelf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
)

const (
	headers = 64 + 56 // ELF header, one program header
	base    = 0x400000
)

// Write writes an executable file whose program exits with a code, 0 to 255.
func Write(path string, code uint8) error { return write(path, nothing, code) }

// WriteWaiter writes an executable file with the program of Waiter.
func WriteWaiter(path string, code uint8) error { return write(path, waits, code) }

func write(path string, first int, code uint8) error {
	b, err := program(runtime.GOARCH, first, code)
	if err == nil {
		err = os.WriteFile(path, b, 0o755)
	}
	if err != nil {
		return fmt.Errorf("write a program: %w", err)
	}
	return nil
}

// Waiter returns a program that writes one byte to descriptor 1, waits until descriptor 0 has a
// byte or is at its end, and then exits with a code, 0 to 255. The byte shows that the execve(2) is
// complete: the process no longer changes.
func Waiter(code uint8) ([]byte, error) { return program(runtime.GOARCH, waits, code) }

// Reader returns a program that reads descriptor 0 to its end and then exits with a code, 0 to 255.
func Reader(code uint8) ([]byte, error) { return program(runtime.GOARCH, reads, code) }

// Program returns a program with this machine code for this architecture, at address 0x400078.
func Program(code []byte) ([]byte, error) {
	m, err := machineOf(runtime.GOARCH)
	return image(m.number, code), err
}

// program returns a program that first does one of the actions below, then exits with the code.
func program(arch string, first int, code uint8) ([]byte, error) {
	m, err := machineOf(arch)
	if err != nil {
		return nil, err
	}
	return image(m.number, slices.Concat(m.first[first], m.exit(code))), nil
}

// The first actions of a program.
const (
	nothing = iota
	waits
	reads
)

// machine has the instructions of an architecture.
type machine struct {
	number elf.Machine
	first  [3][]byte
	exit   func(code uint8) []byte // exit_group(code)
}

func machineOf(arch string) (m machine, err error) {
	m, ok := machines[arch]
	if !ok {
		err = fmt.Errorf("no program for architecture %s", arch)
	}
	return m, err
}

var machines = map[string]machine{
	"amd64": {elf.EM_X86_64, [...][]byte{
		waits: {
			0xbf, 1, 0, 0, 0, // mov edi, 1
			0x48, 0x89, 0xe6, // mov rsi, rsp
			0xba, 1, 0, 0, 0, // mov edx, 1
			0xb8, 1, 0, 0, 0, // mov eax, SYS_write
			0x0f, 0x05, // syscall
			0x48, 0x8d, 0x74, 0x24, 0xf8, // lea rsi, [rsp-8]
			0x31, 0xff, // xor edi, edi
			0x31, 0xc0, // xor eax, eax: SYS_read
			0x0f, 0x05, // syscall
		},
		reads: {
			0x48, 0x8d, 0xb4, 0x24, 0, 0xf0, 0xff, 0xff, // again: lea rsi, [rsp-4096]
			0xba, 0x00, 0x10, 0, 0, // mov edx, 4096
			0x31, 0xff, // xor edi, edi
			0x31, 0xc0, // xor eax, eax: SYS_read
			0x0f, 0x05, // syscall
			0x85, 0xc0, // test eax, eax
			0x7f, 0xe9, // jg again
		},
	}, func(code uint8) []byte {
		return []byte{
			0xbf, code, 0, 0, 0, // mov edi, code
			0xb8, 231, 0, 0, 0, // mov eax, SYS_exit_group
			0x0f, 0x05, // syscall
		}
	}},
	"arm64": {elf.EM_AARCH64, [...][]byte{
		waits: words(
			0xd2800020, // mov x0, 1
			0x910003e1, // mov x1, sp
			0xd2800022, // mov x2, 1
			0xd2800808, // mov x8, SYS_write
			0xd4000001, // svc 0
			0xd2800000, // mov x0, 0
			0xd10043e1, // sub x1, sp, 16
			0xd2800022, // mov x2, 1
			0xd28007e8, // mov x8, SYS_read
			0xd4000001, // svc 0
		),
		reads: words(
			0xd2800000, // again: mov x0, 0
			0xd14007e1, // sub x1, sp, 4096
			0xd2820002, // mov x2, 4096
			0xd28007e8, // mov x8, SYS_read
			0xd4000001, // svc 0
			0xf100001f, // cmp x0, 0
			0x54ffff4c, // b.gt again
		),
	}, func(code uint8) []byte {
		return words(
			0xd2800000|uint32(code)<<5, // mov x0, code
			0xd2800008|94<<5,           // mov x8, SYS_exit_group
			0xd4000001,                 // svc 0
		)
	}},
}

func words(instructions ...uint32) (text []byte) {
	for _, i := range instructions {
		text = binary.LittleEndian.AppendUint32(text, i)
	}
	return text
}

func image(machine elf.Machine, text []byte) []byte {
	size := uint64(headers + len(text))
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Entry: base + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X),
		Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x1000,
	}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, header) // cannot fail
	binary.Write(&b, binary.LittleEndian, segment)
	return append(b.Bytes(), text...)
}
