// Package tinyelf writes the smallest possible programs, of a few system calls. One ends at once
// with a given code: its process lives for some ten microseconds, much shorter than that of a
// program with a runtime or a loader. Another waits before it ends.
package tinyelf

import (
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
	le := binary.LittleEndian
	b := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	b = le.AppendUint16(b, 2) // ET_EXEC
	b = le.AppendUint16(b, machine)
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, base+headers) // entry
	b = le.AppendUint64(b, 64)           // program headers
	b = le.AppendUint64(b, 0)            // no sections
	b = le.AppendUint32(b, 0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	size := uint64(headers + len(text))
	b = le.AppendUint32(b, 1)   // PT_LOAD
	b = le.AppendUint32(b, 4|1) // readable, executable
	for _, v := range []uint64{0, base, base, size, size, 0x1000} {
		b = le.AppendUint64(b, v)
	}
	return append(b, text...)
}
