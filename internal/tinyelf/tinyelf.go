// Package tinyelf writes the smallest possible programs, of a few system calls. One ends at once
// with a given code: its process lives for some ten microseconds, much shorter than that of a
// program with a runtime or a loader. Others wait or read before they end.
package tinyelf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
)

const (
	headers = 64 + 56 // ELF header, one program header
	base    = 0x400000
)

// Write writes an executable file, a program that ends with the code, 0 to 255.
func Write(path string, code uint8) error {
	machine, text, err := exitCode(runtime.GOARCH, code)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, image(machine, text), 0o755); err != nil {
		return fmt.Errorf("write a program: %w", err)
	}
	return nil
}

// Waiter returns a program that writes one byte to descriptor 1, waits until descriptor 0 has a
// byte or is at its end, and then ends with the code, 0 to 255. The byte shows that the execve(2)
// is complete: the process does not change any more.
func Waiter(code uint8) ([]byte, error) {
	machine, text, err := waiter(runtime.GOARCH, code)
	if err != nil {
		return nil, err
	}
	return image(machine, text), nil
}

// Reader returns a program that reads descriptor 0 to its end and then ends with the code, 0 to
// 255.
func Reader(code uint8) ([]byte, error) {
	machine, text, err := reader(runtime.GOARCH, code)
	if err != nil {
		return nil, err
	}
	return image(machine, text), nil
}

// Program returns a program of the machine code for this architecture, which begins at address
// 0x400078.
func Program(code []byte) ([]byte, error) {
	machine, _, err := exitCode(runtime.GOARCH, 0)
	return image(machine, code), err
}

func waiter(arch string, code uint8) (machine uint16, text []byte, err error) {
	machine, end, err := exitCode(arch, code)
	switch arch {
	case "amd64":
		text = []byte{
			0xbf, 1, 0, 0, 0, // mov edi, 1
			0x48, 0x89, 0xe6, // mov rsi, rsp
			0xba, 1, 0, 0, 0, // mov edx, 1
			0xb8, 1, 0, 0, 0, // mov eax, SYS_write
			0x0f, 0x05, // syscall
			0x48, 0x8d, 0x74, 0x24, 0xf8, // lea rsi, [rsp-8]
			0x31, 0xff, // xor edi, edi
			0x31, 0xc0, // xor eax, eax: SYS_read
			0x0f, 0x05, // syscall
		}
	case "arm64":
		for _, op := range []uint32{
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
		} {
			text = binary.LittleEndian.AppendUint32(text, op)
		}
	}
	return machine, append(text, end...), err
}

func reader(arch string, code uint8) (machine uint16, text []byte, err error) {
	machine, end, err := exitCode(arch, code)
	switch arch {
	case "amd64":
		text = []byte{
			0x48, 0x8d, 0xb4, 0x24, 0, 0xf0, 0xff, 0xff, // again: lea rsi, [rsp-4096]
			0xba, 0x00, 0x10, 0, 0, // mov edx, 4096
			0x31, 0xff, // xor edi, edi
			0x31, 0xc0, // xor eax, eax: SYS_read
			0x0f, 0x05, // syscall
			0x85, 0xc0, // test eax, eax
			0x7f, 0xe9, // jg again
		}
	case "arm64":
		for _, op := range []uint32{
			0xd2800000, // again: mov x0, 0
			0xd14007e1, // sub x1, sp, 4096
			0xd2820002, // mov x2, 4096
			0xd28007e8, // mov x8, SYS_read
			0xd4000001, // svc 0
			0xf100001f, // cmp x0, 0
			0x54ffff4c, // b.gt again
		} {
			text = binary.LittleEndian.AppendUint32(text, op)
		}
	}
	return machine, append(text, end...), err
}

// exitCode returns the ELF machine number and the instructions of exit_group(code).
func exitCode(arch string, code uint8) (machine uint16, text []byte, err error) {
	switch arch {
	case "amd64":
		return 62, []byte{
			0xbf, code, 0, 0, 0, // mov edi, code
			0xb8, 231, 0, 0, 0, // mov eax, SYS_exit_group
			0x0f, 0x05, // syscall
		}, nil
	case "arm64":
		for _, op := range []uint32{
			0xd2800000 | uint32(code)<<5, // mov x0, code
			0xd2800008 | 94<<5,           // mov x8, SYS_exit_group
			0xd4000001,                   // svc 0
		} {
			text = binary.LittleEndian.AppendUint32(text, op)
		}
		return 183, text, nil
	}
	return 0, nil, fmt.Errorf("write a program: not known how for %s", arch)
}

func image(machine uint16, text []byte) []byte {
	size := uint64(headers + len(text))
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: machine, Version: uint32(elf.EV_CURRENT),
		Entry: base + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X),
		Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x1000,
	}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, header) // a buffer takes all
	binary.Write(&b, binary.LittleEndian, segment)
	return append(b.Bytes(), text...)
}
