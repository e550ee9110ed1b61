// Package tinyelf writes the smallest programs there are: one system call that
// ends the process with a given code. A process that executes one lives for some
// ten microseconds, which no program with a runtime or a loader does.
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

// Write makes the executable file path, which ends with the code, 0 to 255.
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
