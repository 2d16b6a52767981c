"""What the suites of this folder share: how checks are counted, ports on loopback, a first process that can be seen."""

import socket

# For a shell in a mount namespace: the first process of a sandbox may hide its files from root as well, so that nobody
# could tell who uses the GPUs. An empty one is put in its place.
COVER_FIRST = """readlink /proc/1/fd/0 >/dev/null 2>&1 || {
    mount -t tmpfs tmpfs /proc/1
    mkdir -p /proc/1/fd /proc/1/task/1/fd
    echo init > /proc/1/comm
}
"""


class Counts:
    passed = failed = skipped = 0

    def judge(self, name, good, what=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        if not good:
            print(f"FAIL {name}: {what}")

    def skip(self, name):
        self.skipped += 1
        print(f"SKIP {name}")


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports
