package main

// twoQueues opens two more queues of each backend, and closes the older of them first.
func twoQueues(t *test) {
	t.watch(single)
	second, third := t.openEach(options(single)), t.openEach(options(single))
	t.wantWorking()
	t.close(second...)
	t.wantWorking()
	t.close(third...)
	t.wantWorking()
}
