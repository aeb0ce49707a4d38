"""Hands its arguments, environment and streams to the fork server, and ends as the fork does.

Every import costs milliseconds here, so this program uses only modules that are built into the interpreter.
"""

import _signal
import _socket
import posix
import sys

PASSED_ON = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)

fork = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
fork.connect(sys.argv[1])
arguments = [word.encode(errors="surrogateescape") for word in sys.argv[2:]]
variables = [name + b"=" + value for name, value in posix.environ.items()]
message = b"\0".join([posix.getcwdb(), b"%d" % len(arguments), *arguments, *variables])
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
fork.sendmsg([len(message).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
fork.sendall(message)
process = int.from_bytes(fork.recv(4), "big")
for number in PASSED_ON:
    _signal.signal(number, lambda number, _: posix.kill(process, number))
# The fork has them now. A server's end of a stream must not stay open here.
for number in (0, 1, 2):
    posix.close(number)
code = int.from_bytes(fork.recv(4), "big", signed=True)
if code < 0:
    if -code in PASSED_ON:
        _signal.signal(-code, _signal.SIG_DFL)
    posix.kill(posix.getpid(), -code)
posix._exit(code)
