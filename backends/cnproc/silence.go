package cnproc

import "github.com/quark-linux/quark/internal/kernelversion"

// silence detects that the kernel has stopped sending messages. Before Linux 6.6 the kernel counts
// its listeners by their requests alone. A program that unsubscribes twice also unsubscribes
// another program. Without a listener the kernel neither makes nor counts messages. It answers an
// invalid request as usual, but ignores it.
type silence struct {
	counts bool   // this kernel counts requests
	heard  uint64 // messages received, when last checked
	sound  uint64 // time of the latest message: all earlier losses are reported
	next   uint64 // time of the next check
	asked  bool   // an answer is expected in the socket
	fell   bool   // it was silent at some time
	mute   bool   // it is silent now
}

// countsRequests reports whether this kernel counts listeners by requests.
func countsRequests() bool { return !kernelversion.AtLeast("6.6") }

// silenceCheck is the time without messages, in ns, after which a check is due.
const silenceCheck = 5_000_000_000

// opQuestion is an invalid operation. The kernel answers with EINVAL or EPERM.
const opQuestion = 0

// due returns the time of the next check, 0 for none.
func (s *silence) due() uint64 {
	if !s.counts {
		return 0
	}
	return s.next
}

// check handles an empty socket. received is the number of messages so far. ask is set if the
// kernel is to be asked now, silent if the previous answer is missing.
func (s *silence) check(received, now uint64) (ask, silent bool) {
	asked := s.asked
	s.asked = false
	switch {
	case !s.counts:
	case received != s.heard:
		s.heard, s.next, s.mute = received, now+silenceCheck, false
	case asked:
		s.next, s.fell, s.mute = now+silenceCheck, true, true
		return false, true
	case now >= s.next:
		return true, false
	}
	return false, false
}
