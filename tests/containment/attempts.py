"""Attempts to leave a containment, one function each: it returns if it got out, and raises if it was held.

A program of its own, with the standard library alone: `attempts.py NAMES TARGETS` writes one line per attempt.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

MEGABYTE = 1 << 20
MULTIPATH = 262
FAST_OPEN = 0x20000000
at: Any = {}
"""The targets outside: paths, ports and process ids."""


def work_in_its_own_folder() -> None:
    """No escape: shows that the server runs at all."""
    with open(f"{at['own']}/work", "w+") as file:
        file.write("x")


def read_a_file() -> None:
    with open(at["secret"]) as file:
        assert file.read()


def write_a_file() -> None:
    with open(f"{at['outside']}/new", "w") as file:
        file.write("x")


def list_a_folder() -> None:
    os.listdir(at["outside"])


def change_a_mode() -> None:
    os.chmod(at["secret"], 0o640)


def leave_a_program_with_the_users_rights() -> None:
    _leaves_it(lambda path: (os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755)), os.chmod(path, 0o4755)))


def leave_it_by_descriptor() -> None:
    _leaves_it(lambda path: os.fchmod(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755), 0o2755))


def leave_it_by_opening() -> None:
    _leaves_it(lambda path: os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755))


def leave_it_by_opening_with_a_structure() -> None:
    how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)
    _leaves_it(lambda path: _system_call(437, -100, ctypes.c_char_p(path.encode()), how, len(how)))


def leave_it_as_a_node() -> None:
    _leaves_it(lambda path: os.mknod(path, 0o104755))


def _leaves_it(make: Callable[[str], object]) -> None:
    """Whether the folder of its own has a set-user-ID or set-group-ID file now. It is owned by the hub's user."""
    path = f"{at['own']}/program-{os.getpid()}"
    os.umask(0)
    try:
        make(path)
        assert os.stat(path).st_mode & 0o6000
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def change_a_time() -> None:
    os.utime(at["secret"], (0, 0))


def set_an_attribute() -> None:
    os.setxattr(at["secret"], "user.x", b"x")


def move_a_file() -> None:
    os.rename(at["moved"], f"{at['outside']}/elsewhere")
    os.rename(f"{at['outside']}/elsewhere", at["moved"])


def truncate_a_file() -> None:
    os.truncate(at["truncated"], 0)


def link_a_file() -> None:
    link = f"{at['own']}/link"
    os.link(at["secret"], link)
    os.unlink(link)


def follow_a_link() -> None:
    link = f"{at['own']}/symbolic"
    os.symlink(at["secret"], link)
    try:
        with open(link) as file:
            assert file.read()
    finally:
        os.unlink(link)


def read_through_proc() -> None:
    with open(f"/proc/self/root{at['secret']}") as file:
        assert file.read()


def write_a_program() -> None:
    with open(at["program"], "a") as file:
        file.write("")


def connect_by_tcp() -> None:
    with socket.create_connection(("127.0.0.1", at["tcp"]), 5) as peer:
        assert peer.recv(1)


def send_by_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.settimeout(5 if at["plain"] else 0.2)
        peer.sendto(b"x", ("127.0.0.1", at["udp"]))
        assert peer.recv(1)


def receive_by_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        assert own.getsockname()[1]


def connect_by_a_mapped_address() -> None:
    with socket.socket(socket.AF_INET6) as peer:
        peer.settimeout(5)
        peer.connect(("::ffff:127.0.0.1", at["tcp"]))
        assert peer.recv(1)


def connect_by_multipath_tcp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, MULTIPATH) as peer:
        peer.settimeout(5)
        peer.connect(("127.0.0.1", at["tcp"]))
        assert peer.recv(1)


def listen_by_multipath_tcp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, MULTIPATH) as own:
        own.bind(("127.0.0.1", 0))
        own.listen()


def listen_without_a_port() -> None:
    """The kernel chooses a port, and no `bind` is judged."""
    with socket.socket() as own:
        own.listen()
        assert own.getsockname()[1]


def listen_at_a_path() -> None:
    path = f"{at['own']}/listening"
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(path)
        os.unlink(path)
        own.listen()


def send_by_fast_open() -> None:
    """The kernel connects inside of `sendto`, and no `connect` is judged."""
    with socket.socket() as peer:
        peer.settimeout(5)
        with contextlib.suppress(BlockingIOError):  # under way
            peer.sendto(b"x", FAST_OPEN, ("127.0.0.1", at["tcp"]))
        assert peer.recv(1)


def send_a_message_by_fast_open() -> None:
    with socket.socket() as peer:
        peer.settimeout(5)
        with contextlib.suppress(BlockingIOError):
            peer.sendmsg([b"x"], [], FAST_OPEN, ("127.0.0.1", at["tcp"]))
        assert peer.recv(1)


def send_messages_by_fast_open() -> None:
    text = ctypes.create_string_buffer(b"x")
    piece = (ctypes.c_void_p * 2)(ctypes.addressof(text), 1)
    address = ctypes.create_string_buffer(struct.pack("=HH4s8x", 2, socket.htons(at["tcp"]), bytes((127, 0, 0, 1))))
    message = (ctypes.c_size_t * 8)(ctypes.addressof(address), 16, ctypes.addressof(piece), 1)
    with socket.socket() as peer:
        peer.settimeout(5)
        with contextlib.suppress(BlockingIOError):
            _call("sendmmsg", peer.fileno(), message, 1, FAST_OPEN)
        assert peer.recv(1)


def connect_with_the_first_bytes() -> None:
    fast_open_connect = 30
    with socket.socket() as peer:
        peer.settimeout(5)
        peer.setsockopt(socket.IPPROTO_TCP, fast_open_connect, 1)
        peer.connect(("127.0.0.1", at["tcp"]))
        peer.send(b"x")
        assert peer.recv(1)


def list_connections_of_others() -> None:
    diagnosis = 4
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, diagnosis).close()


def connect_by_path() -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(at["unix"])
        assert peer.recv(1)


def send_by_path() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
        peer.sendto(b"x", at["datagram"])


def send_by_path_from_a_pair() -> None:
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with own, other:
        own.sendto(b"x", at["datagram"])


def connect_by_abstract_name() -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect("\0" + at["abstract"])
        assert peer.recv(1)


def open_another_family() -> None:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()


def signal_a_process() -> None:
    os.kill(at["pid"], signal.SIGUSR1)


def signal_by_descriptor() -> None:
    handle = os.pidfd_open(at["pid"])
    signal.pidfd_send_signal(handle, signal.SIGUSR1)


def trace_a_process() -> None:
    attach, detach = 16, 17
    _call("ptrace", attach, at["pid"], 0, 0)
    os.waitpid(at["pid"], 0x40000000)
    _call("ptrace", detach, at["pid"], 0, 0)


def read_its_memory() -> None:
    with open(f"/proc/{at['pid']}/mem", "rb") as memory:
        memory.fileno()


def read_its_environment() -> None:
    with open(f"/proc/{at['pid']}/environ", "rb") as file:
        assert file.read()


def see_processes() -> None:
    assert str(at["pid"]) in os.listdir("/proc")


def take_its_descriptors() -> None:
    take = 438
    handle = os.pidfd_open(at["pid"])
    _system_call(take, handle, 1, 0)


def lower_its_limits() -> None:
    resource.prlimit(at["pid"], resource.RLIMIT_NOFILE, (512, 512))


def lower_its_priority() -> None:
    os.setpriority(os.PRIO_PROCESS, at["pid"], 5)


def take_more_processors() -> None:
    os.sched_setaffinity(0, range(at["processors"]))
    assert len(os.sched_getaffinity(0)) == at["processors"]


def read_an_inherited_file() -> None:
    for number in range(3, 256):
        try:
            if b"secret" in os.pread(number, 100, 0):
                return
        except OSError:
            continue
    raise PermissionError("no open file has it")


def use_io_uring() -> None:
    parameters = ctypes.create_string_buffer(120)
    _system_call(425, 4, parameters)


def use_the_keyring() -> None:
    session = -3
    _call("syscall", 250 if os.uname().machine == "x86_64" else 219, 0, session, 0)


def make_a_namespace() -> None:
    new_user = 0x10000000
    _call("unshare", new_user)


def make_a_namespace_by_clone() -> None:
    new_user, sigchld = 0x10000000, 17
    child = _system_call(56 if os.uname().machine == "x86_64" else 220, new_user | sigchld, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def send_a_message_by_queue() -> None:
    create = os.O_CREAT | os.O_RDWR
    library = ctypes.CDLL("librt.so.1", use_errno=True)
    if library.mq_open(at["queue"].encode(), create, 0o600, None) < 0:
        raise OSError(ctypes.get_errno(), "mq_open")
    library.mq_unlink(at["queue"].encode())


def share_memory() -> None:
    create = 0o1600
    shared = _call("shmget", at["shared"], 4096, create)
    _call("shmctl", shared, 0, None)


def fork_without_end() -> None:
    children: list[int] = []
    try:
        for _ in range(at["forks"]):
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def fill_memory() -> None:
    block = bytearray(at["megabytes"] * MEGABYTE)
    block[::4096] = b"x" * len(block[::4096])


def fill_shared_memory() -> None:
    with mmap.mmap(-1, at["megabytes"] * MEGABYTE) as block:
        _touch(block)


def fill_memory_files() -> None:
    file = os.memfd_create("file")
    for _ in range(at["megabytes"]):
        os.write(file, b"x" * MEGABYTE)


def fill_private_copies() -> None:
    """Pages of a file, copied when they are written: no anonymous mapping shows them."""
    with open(f"{at['own']}/sparse", "w+b") as file:
        file.truncate(at["megabytes"] * MEGABYTE)
        with mmap.mmap(file.fileno(), at["megabytes"] * MEGABYTE, mmap.MAP_PRIVATE) as block:
            _touch(block)


def fill_memory_of_children() -> None:
    """Each child stays below the limit, together they are above it."""
    reading, writing = os.pipe()
    children: list[int] = []
    try:
        for _ in range(4):
            child = os.fork()
            if child == 0:
                block = bytearray(at["megabytes"] // 4 * MEGABYTE)
                block[::4096] = b"x" * len(block[::4096])
                os.write(writing, b"+")
                signal.pause()
            children.append(child)
        os.close(writing)
        for _ in children:
            if not select.select([reading], [], [], 10)[0] or not os.read(reading, 1):
                raise MemoryError("a child was stopped")
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _touch(block: mmap.mmap) -> None:
    for page in range(0, len(block), 4096):
        block[page] = 1


def _call(name: str, *arguments: Any) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    result: int = getattr(library, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def _system_call(number: int, *arguments: Any) -> int:
    return _call("syscall", number, *arguments)


HEAVY = (
    fork_without_end,
    fill_memory,
    fill_shared_memory,
    fill_memory_files,
    fill_private_copies,
    fill_memory_of_children,
)
"""Attempts that may take the whole server with them."""
ATTEMPTS: dict[str, Callable[[], None]] = {
    name: value for name, value in list(globals().items()) if name[0] != "_" and type(value) is type(_touch)
}
NETWORK = (
    connect_by_tcp,
    send_by_udp,
    receive_by_udp,
    connect_by_a_mapped_address,
    connect_by_multipath_tcp,
    listen_by_multipath_tcp,
    listen_without_a_port,
    send_by_fast_open,
    send_a_message_by_fast_open,
    send_messages_by_fast_open,
    connect_with_the_first_bytes,
    list_connections_of_others,
)
"""Ways into the network."""
WORK = work_in_its_own_folder.__name__
LIGHT = [name for name, attempt in ATTEMPTS.items() if attempt not in HEAVY and name != WORK]


def _attempt(name: str) -> None:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        ATTEMPTS[name]()
        line = f"{name} escaped"
    except BaseException as held:
        line = f"{name} held: {held!r}"
    os.write(1, f"{line}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    at.update(json.loads(sys.argv[2]))
    for named in sys.argv[1].split(","):
        _attempt(named)
