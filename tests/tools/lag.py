#!/usr/bin/env python3
"""Holds every packet that is routed to a TUN device for a while, then gives it back to be routed on: what netem does, for kernels
without it.

    lag.py DEVICE MILLISECONDS

Makes the device, says "ready", and ends when it is killed; the device goes with it.
"""
import collections
import fcntl
import os
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PACKET_MAX = 65536
HELD_MAX = 100_000  # packets; further ones are dropped, as a queue would


def main():
    device, hold = sys.argv[1], int(sys.argv[2]) / 1000
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
    print("ready", flush=True)
    held = collections.deque()
    while True:
        left = max(0.0, held[0][0] - time.monotonic()) if held else None
        readable, _, _ = select.select([tun], [], [], left)
        if readable:
            try:
                packet = os.read(tun, PACKET_MAX)
                if len(held) < HELD_MAX:
                    held.append((time.monotonic() + hold, packet))
            except BlockingIOError:
                pass
        while held and held[0][0] <= time.monotonic():
            try:
                os.write(tun, held.popleft()[1])
            except OSError:
                pass  # no packet that a network must carry: not IPv4, or the device is going


if __name__ == "__main__":
    main()
