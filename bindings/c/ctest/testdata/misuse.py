# Uses queues wrongly, and from everywhere: each is an error of Python, and nothing crashes or leaks.
# misuse.py RECORDING
import errno
import gc
import os
import signal
import sys
import threading

import quark

recording = sys.argv[1]


def fails(error, call):
    try:
        result = call()
    except error as raised:
        return raised
    raise AssertionError(f"{result!r}, and no {error.__name__}")


for arguments in ({"backend": "none"}, {"flags": 1 << 40}, {"hold_time": 4294967.306}, {"filter": "pid == 1\0"}, {"replay": "a\0b"}):
    fails(ValueError, lambda: quark.Queue(**arguments))
assert fails(quark.Error, lambda: quark.Queue(replay=recording, hold_time=0.0001)).errno == errno.EINVAL

# Closed twice; what is asked then is an error, not "unknown".
queue = quark.Queue(replay=recording)
assert queue.lookup(1) and queue.lookup(1 << 32 | 1) is None and queue.lookup(-1) is None
queue.close()
queue.close()
for call in (queue.get, queue.fileno, queue.processes, queue.stats, lambda: queue.lookup(1), lambda: queue.backend, lambda: list(queue)):
    assert fails(quark.Error, call).errno == errno.EBADF

# What nobody has any more is closed.
def descriptors():
    return len(os.listdir("/proc/self/fd"))

def first():
    for event in quark.Queue(backend="cnproc", hold_time=0.01):
        return event

quark.Queue(backend="cnproc").close()
before = descriptors()
for _ in range(3):
    quark.Queue(backend="cnproc")
    first()
gc.collect()
assert descriptors() == before, (descriptors(), before)

# Other threads, and the handler of a signal, close it amid an iteration.
def use(queue, errors):
    while True:
        try:
            for event in queue:
                queue.lookup(1), queue.processes(), queue.stats(), queue.backend, queue.fileno()
        except quark.Error as error:
            if error.errno == errno.EBUSY:
                continue
            errors.append(error.errno)
            return

for _ in range(8):
    queue, errors = quark.Queue(backend="cnproc", hold_time=0.01), []
    threads = [threading.Thread(target=use, args=(queue, errors)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        try:
            queue.processes()
        except quark.Error as error:
            assert error.errno == errno.EBUSY, error
    closers = [threading.Thread(target=queue.close) for _ in range(3)]
    for thread in closers:
        thread.start()
    for thread in closers + threads:
        thread.join()
    assert errors == [errno.EBADF] * 4, errors
for after in (0.001, 0.01, 0.1):
    with quark.Queue(backend="cnproc", hold_time=0.01) as queue:
        signal.signal(signal.SIGALRM, lambda *_: queue.close())
        signal.setitimer(signal.ITIMER_REAL, after)
        fails(quark.Error, lambda: [queue.processes() for event in iter(queue.get, 0)])

# A child has no queue, and the parent's is as before.
queue = quark.Queue(replay=recording)
if not (child := os.fork()):
    assert fails(quark.Error, queue.get).errno == errno.ECHILD
    assert fails(quark.Error, lambda: quark.Queue(replay=recording)).errno == errno.ECHILD
    queue.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert list(queue)
print("ok")
