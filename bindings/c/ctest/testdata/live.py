# Watches a child of its own on this machine, and ends an iteration from outside.
import errno
import os
import select
import subprocess
import threading

import quark

with quark.Queue(backend="cnproc", hold_time=0.01) as queue:
    assert queue.backend == "cnproc"
    me = queue.lookup(os.getpid())
    assert me and me.comm and me.comm.startswith("python") and me.ppid == os.getppid()
    assert [p for p in queue.processes() if p.pid == 1]
    child = subprocess.Popen(["sleep", "0.5"])
    seen = set()
    for event in queue:
        if event.process and event.process.pid == child.pid:
            seen |= event.kinds
            child.poll()
        if "EXIT" in seen or "GONE" in seen:
            break
    assert "FORK" in seen, seen
    child = subprocess.Popen(["sleep", "0.5"])
    found = False
    while not found:
        assert select.select([queue], [], [], 10)[0]
        while event := queue.get():
            found |= event.process is not None and event.process.pid == child.pid
    child.wait()
    threading.Timer(0.3, queue.close).start()
    try:
        for event in queue:
            pass
        assert False, "the iteration ended without an error"
    except quark.Error as error:
        assert error.errno == errno.EBADF, error

try:
    quark.Queue(filter="exec and")
    assert False
except quark.Error as error:
    assert error.errno == errno.EINVAL and "filter" in str(error)
print("ok")
