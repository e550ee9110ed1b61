# Prints the layout of the structures as testdata/abi.txt has them, and numbers by their names in C.
import ctypes
import json

import quark

NAMES = {quark.CAttr: "queue_attr", quark.CQueue: "queue", quark.CStats: "queue_stats", quark.CProcess: "process",
         quark.CPart: "part", quark.CEvent: "event", quark.CProcessIter: "process_iter"}

lines = []
for kind, name in NAMES.items():
    lines.append(f"struct quark_{name} {ctypes.sizeof(kind)}\n")
    for member, *_ in kind._fields_:
        place = getattr(kind, member)
        lines.append(f"  {member} {place.offset} {place.size}\n")

constants = {f"QUARK_EV_{name}": bit for bit, name in quark.KINDS.items()}
constants |= {f"QUARK_FIELD_{name.upper()}": bit for name, bit in quark.FIELDS.items()}
constants |= {f"QQ_{name.upper()}": bit for name, bit in quark.BACKENDS.items()}
constants |= {f"QQ_{name}": getattr(quark, name) for name in "THREAD_EVENTS MIN_AGG STRICT FAILED_EXECS".split()}
print(json.dumps({"Structs": "".join(lines), "Constants": constants}))
