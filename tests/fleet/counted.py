"""What the suites of this folder share: how checks are counted, and ports on loopback."""

import socket


class Counts:
    passed = failed = skipped = 0

    def judge(self, name, good, what=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        if not good:
            print(f"FAIL {name}: {what}")


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports
