# frames.py [OPTION...] SOCKET BYTES...: says each (hexadecimal) to a plain Unix socket of the tools, as a frame (see
# common/world/local_frame.h) or with --raw as it stands, and prints the printable part of what comes back until the other side closes,
# --until TEXT has come, or it is silent for 10 s. --version N: of the framing.
import socket
import struct
import sys

arguments = sys.argv[1:]
until, raw, version = b"", False, 1
while arguments and arguments[0].startswith("--"):
    word = arguments.pop(0)
    if word == "--raw":
        raw = True
    elif word == "--until":
        until = arguments.pop(0).encode()
    elif word == "--version":
        version = int(arguments.pop(0))
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
got = b""
try:
    s.connect(arguments[0])
    for body in arguments[1:]:
        body = bytes.fromhex(body)
        s.sendall(body if raw else b"Brs" + struct.pack("<BI", version, len(body)) + body)
except OSError as e:
    got += str(e).encode()
try:
    while not until or until not in got:
        more = s.recv(65536)
        if not more:
            got += b" closed"
            break
        got += more
except OSError as e:
    got += str(e).encode()
print("".join(chr(c) if 32 <= c < 127 else " " for c in got))
