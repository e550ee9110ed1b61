#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what processes do, a line for each event, until ^C or the end of a replay."""

from __future__ import annotations

import argparse
import io
import os
import sys

import quark


def text(event: quark.Event) -> str:
    words = ["+".join(name for name in quark.KINDS.values() if name in event.kinds)]
    if event.gap:
        words += [f"lost={event.gap.count}", f"cause={event.gap.cause}"]
    if p := event.process:
        for name in "pid ppid uid comm exe cwd args".split():
            value = getattr(p, name)
            field = {"uid": "uids"}.get(name, name)
            mark = "..." if field in p.truncated else "~" if field in p.cached else ""
            words.append(f"{name}={'?' if value is None else value}{mark}")
        if p.wait_status is not None:
            words.append(f"exit={os.waitstatus_to_exitcode(p.wait_status)}")
    if event.exec_failed_path is not None:
        words += [f"asked={event.exec_failed_path}", f"error={os.strerror(event.exec_failed_errno or 0)}"]
    return " ".join(words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-f", "--filter", help="an expression of quark(7)")
    parser.add_argument("-r", "--replay", help="a recording of quark-mon(8)")
    parser.add_argument("-p", "--processes", action="store_true", help="first those that run")
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files are bytes
    try:
        with quark.Queue(filter=options.filter, replay=options.replay) as queue:
            for process in queue.processes() if options.processes else []:
                print("RUNNING", process.pid, process.comm, process.exe)
            for event in queue:
                print(text(event), flush=True)
    except quark.Error as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
