# Prints each event of a recording as a line of JSON: all members by their names in C, as texts.
import ctypes
import json
import sys

import quark


def value(of, name):
    v = getattr(of, name)
    if name in ("cmdline", "environ"):
        v = ctypes.string_at(v, getattr(of, name + "_len") + 1) if v else None  # with the NUL after it
    return v.decode("latin-1") if isinstance(v, bytes) else str(v)


def members(of, without=()):
    return {name: value(of, name) for name, *_ in of._fields_ if name not in (*without, "pad", "pad2", "queue", "serial")}


with quark.Queue(replay=sys.argv[1]) as queue:
    for event in queue.c_events():
        line = members(event, ("process", "parts"))
        if event.process:
            line |= {"process." + k: v for k, v in members(event.process.contents).items()}
        for i in range(event.nparts):
            line |= {f"part{i}." + k: v for k, v in members(event.parts[i]).items()}
        print(json.dumps(line))
