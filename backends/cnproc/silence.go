package cnproc

import (
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// silence finds out whether the kernel makes messages at all. Before Linux 6.6 it counts its
// listeners by their requests alone, so that a program that ends a subscription twice ends that of
// another one, and without a listener nothing is made, numbered or counted. A request that makes no
// sense is answered like any other, and changes nothing.
type silence struct {
	counts bool   // this kernel counts requests
	heard  uint64 // messages received, when last checked
	sound  uint64 // the latest time of a message: of before none is missing unsaid
	next   uint64 // time of the next check
	asked  bool   // the answer is to be in the socket
	fell   bool   // it was silent at some time
	mute   bool   // and is
}

// countsRequests reports whether this kernel does.
func countsRequests() bool { return !kernelversion.AtLeast("6.6") }

// silenceCheck is how long nothing may come until it is checked.
const silenceCheck = 5_000_000_000

// due returns the time of the next check, 0 for none.
func (s *silence) due() uint64 {
	if !s.counts {
		return 0
	}
	return s.next
}

// check is for an empty socket from which so many messages came. It reports whether to ask now, and
// whether the answer to the question before is missing.
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

// opQuestion is no request: the kernel answers EINVAL, or EPERM.
const opQuestion = 0

// checkSilence is for an empty socket. It reports whether there is something to read now.
func (s *Source) checkSilence() bool {
	ask, silent := s.silence.check(s.received+s.acks+s.foreign+s.loss.overruns, s.clock.now())
	if ask {
		s.silence.asked = send(s.fd, request(0, opQuestion, false, 0)) == nil
		return s.silence.asked
	}
	if !silent {
		return false
	}
	g := engine.Gap{Cause: engine.LossUnseen, CPU: engine.AllCPUs, From: s.silence.sound, To: s.clock.now()}
	s.silence.sound = g.To
	s.track.lose(g, false)
	// What is not allowed has no answer, and is found silent again.
	send(s.fd, request(0, opListen, false, 0))
	return true
}
