package kernelsocket

import (
	"errors"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ask asks the controller of generic netlink for a family that there is not, and returns the error
// that is the answer.
func ask(conn *netlink.Conn) error {
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.CTRL_ATTR_FAMILY_NAME, Data: []byte("no such\x00")}})
	if err != nil {
		return err
	}
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.GENL_ID_CTRL, Flags: netlink.Request | netlink.Acknowledge},
		Data:   append([]byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0}, attributes...),
	})
	return err
}

// Nobody but the kernel can send to a socket: neither without privilege, as to any other one of
// generic netlink, nor with it.
func TestOthersCanNotAnswer(t *testing.T) {
	for _, protocol := range []int{unix.NETLINK_GENERIC, unix.NETLINK_USERSOCK} {
		for name, dial := range map[string]func() (*netlink.Conn, error){
			"connected": func() (*netlink.Conn, error) { return Dial(protocol) },
			"any":       func() (*netlink.Conn, error) { return netlink.Dial(protocol, nil) },
		} {
			conn, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			switch err := Forge(conn, protocol, make([]byte, unix.SizeofNlMsghdr)); {
			case name == "connected" && !errors.Is(err, unix.ECONNREFUSED):
				t.Errorf("protocol %d: another process sends to a socket that is connected to the kernel: %v", protocol, err)
			case name == "any" && err != nil:
				t.Errorf("protocol %d: nobody can send to any socket: %v", protocol, err)
			}
		}
	}
	conn, err := Dial(unix.NETLINK_GENERIC)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := ask(conn); !errors.Is(err, unix.ENOENT) {
		t.Errorf("the kernel's answer: %v", err)
	}
}
