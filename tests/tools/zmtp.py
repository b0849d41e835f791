# zmtp.py SOCKET FRAME...: says each frame (hexadecimal) to a ZeroMQ ROUTER on a Unix socket, as a DEALER without keys (ZMTP 3.0,
# RFC 23), and prints the printable part of what comes back until --until TEXT has come, or the other side is silent for 10 s.
import socket
import struct
import sys

arguments = sys.argv[1:]
until = b""
if arguments[0] == "--until":
    until, arguments = arguments[1].encode(), arguments[2:]
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(arguments[0])


def take(n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            sys.exit("closed after %d of %d bytes" % (len(data), n))
        data += more
    return data


s.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
take(64)
ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
s.sendall(bytes([4, len(ready)]) + ready)
take(take(2)[1])  # a message before the other's READY would be an error
for frame in arguments[1:]:
    frame = bytes.fromhex(frame)
    s.sendall(bytes([2]) + struct.pack(">Q", len(frame)) + frame)
got = b""
try:
    while until and until not in got:
        more = s.recv(65536)
        if not more:
            break
        got += more
except OSError as e:
    got += str(e).encode()
print("".join(chr(c) if 32 <= c < 127 else " " for c in got))
