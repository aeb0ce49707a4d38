"""The Python names that rules refer to: modules, builtins and attributes by which code reaches more than its task."""

from __future__ import annotations

import re

from interlock.judge.tables import name_set

BLOCKED_MODULES = name_set(
    "subprocess shutil socket ctypes pty pickle cPickle _pickle pickletools dill cloudpickle jsonpickle marshal "
    "shelve code codeop importlib imp runpy pkgutil zipimport builtins __builtin__ __builtins__ _posixsubprocess "
    "posix nt posixshmem cffi _cffi_backend multiprocessing _multiprocessing pdb bdb cProfile profile pstats "
    "timeit trace tracemalloc doctest gc faulthandler resource pexpect sh plumbum fabric paramiko invoke "
    "webbrowser antigravity idlelib telnetlib socketserver winreg _winreg msvcrt _winapi fcntl termios tty pipes "
    "commands popen2 crypt readline rlcompleter site sitecustomize usercustomize distutils setuptools pip "
    "ensurepip zipapp xxlimited _ctypes _testcapi _testinternalcapi _socket _ssl _xxsubinterpreters "
    "_xxinterpchannels _interpreters interpreters ptrace psutil nsenter pwn scapy impacket mmap _thread _signal "
    "_frozen_importlib _frozen_importlib_external _imp _io _pyio _osx_support pydoc turtle turtledemo sysconfig "
    "_sysconfigdata concurrent.futures.process asyncio.subprocess logging.config lib2to3 asyncore smtpd execnet "
    "rpyc Pyro4 pyximport numpy.f2py numpy.distutils IPython ptpython bpython ptyprocess winpty venv modulefinder "
    "compileall py_compile test.support http.server xmlrpc.server wsgiref.simple_server ftplib smtplib nntplib dbm "
    "docker podman libvirt torch.hub torch.utils.cpp_extension numpy.ctypeslib numexpr ansible_runner pyinjector frida "
    "virtualenv pipx pynput tkinter _tkinter spwd asyncssh netmiko winrm wmi win32com win32api win32process win32crypt "
    "pythoncom comtypes keyboard browser_cookie3 keyring secretstorage crontab dbus pydbus dbus_next r2pipe "
    "gdb lldb cppyy llvmlite jpype py4j rpy2 oct2py js2py execjs papermill conda delegator envoy sarge spur mako "
    "tornado.process tornado.template Cheetah"
)

PLAIN_SUBMODULES = name_set("importlib.metadata importlib.resources")
"""Parts of blocked modules that may be imported from."""

LEAKED_MODULES = name_set(
    "os _os sys _sys subprocess _subprocess builtins _builtins __builtins__ importlib _importlib socket _socket "
    "shutil ctypes pty posix nt pickle _pickle marshal "
    "runpy imp code codeop _thread multiprocessing _bootstrap _bootstrap_external linecache pdb "
    "codecs _codecs _io pathlib tempfile fileinput"
)
"""Modules that other modules hold as attributes: `zipfile.os` is `os`."""

HANDED_MODULES = name_set("os sys")
"""Modules that may be imported, and hold what may not be reached: as values they would be out of sight."""

STRICT_MODULES = name_set(
    "__future__ abc array asyncio base64 binascii bisect calendar cmath collections colorsys contextlib copy csv "
    "dataclasses datetime decimal "
    "difflib enum fastmcp fractions functools graphlib hashlib heapq hmac html httpx itertools json keyword math "
    "mcp numbers operator os "
    "pprint pydantic random re secrets statistics string struct textwrap time types typing typing_extensions "
    "unicodedata urllib uuid "
    "zlib zoneinfo"
)

BLOCKED_BUILTINS = name_set(
    "eval exec compile __import__ breakpoint execfile globals locals __builtins__ __loader__ __spec__ __build_class__"
)
CALLED_BUILTINS = name_set("help license copyright credits")
READONLY_BUILTINS = name_set("input exit quit setattr delattr")

BLOCKED_ATTRIBUTES = name_set(
    "__subclasses__ __bases__ __base__ __mro__ __globals__ __builtins__ __code__ __closure__ __func__ __self__ "
    "__getattribute__ __import__ __loader__ __spec__ __subclasshook__ __wrapped__ __objclass__ __reduce__ "
    "__reduce_ex__ __thisclass__ __self_class__ tb_frame f_globals f_locals f_builtins f_back f_code f_trace "
    "gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await cr_origin ag_frame ag_code ag_await func_globals "
    "func_code func_closure im_func im_self co_code co_consts co_names _getframe _current_frames setprofile "
    "settrace addaudithook call_tracing meta_path path_hooks path_importer_cache load_module exec_module "
    "create_module spec_from_file_location module_from_spec SourceFileLoader SourcelessFileLoader "
    "ExtensionFileLoader BuiltinImporter FrozenImporter load_extension enable_load_extension "
    "create_subprocess_exec create_subprocess_shell subprocess_exec subprocess_shell runsource runcode "
    "InteractiveInterpreter InteractiveConsole runctx run_path run_module runstring check_output getoutput "
    "getstatusoutput Popen rmtree posix_spawn posix_spawnp forkpty startfile popen popen2 popen3 popen4 spawnl "
    "spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe execl execle execlp execlpe execv execve execvp "
    "execvpe fork_exec get_type_hints ForwardRef CodeType FunctionType unsafe_load UnsafeLoader FullLoader "
    "full_load read_pickle dictConfig fileConfig get_objects get_referrers get_referents windll cdll CDLL PyDLL "
    "WinDLL LoadLibrary from_address _module currentframe getattr_static run_process open_process ctypeslib "
    "_importer resolve_name run_line_magic run_cell_magic run_cell spawnProcess getProcessOutput temp_original"
)
"""Refused as attributes of anything, as names given to `getattr`, and as keys."""

CALLED_ATTRIBUTES = name_set("system fork mro")
"""Common words elsewhere: refused when called on something that is not known to be harmless."""

HARMLESS_ORIGINS = name_set("platform.system")

BLOCKED_ORIGINS = name_set(
    "os.system os.popen os.fork os.forkpty os.kill os.killpg os.abort os._exit os.chmod os.chown os.lchown "
    "os.fchmod os.fchown os.lchmod os.chroot os.setuid os.setgid os.seteuid os.setegid os.setreuid os.setregid "
    "os.setresuid os.setresgid os.setgroups os.initgroups os.unshare os.setns os.pidfd_open os.ptrace "
    "os.memfd_create os.dup2 os.openpty os.startfile os.posix_spawn os.posix_spawnp os.remove os.unlink os.rmdir "
    "os.removedirs os.truncate os.fdopen os.mknod os.mkfifo os.symlink os.link os.putenv os.register_at_fork "
    "os.plock os.sched_setaffinity os.login_tty os.sendfile os.add_dll_directory sys.modules sys.meta_path "
    "sys.path_hooks sys._getframe sys.settrace sys.setprofile sys.breakpointhook sys.displayhook sys.excepthook "
    "sys.unraisablehook sys.setdlopenflags sys._clear_type_cache sys.addaudithook sys._current_frames "
    "sys._base_executable types.FunctionType types.CodeType types.LambdaType inspect.currentframe inspect.stack "
    "traceback.walk_stack traceback.walk_tb inspect.getmodule inspect.trace inspect.getinnerframes "
    "inspect.getouterframes typing.get_type_hints "
    "typing.ForwardRef typing._eval_type asyncio.create_subprocess_exec asyncio.create_subprocess_shell "
    "asyncio.subprocess "
    "yaml.unsafe_load yaml.full_load yaml.UnsafeLoader yaml.Loader yaml.FullLoader yaml.unsafe_load_all "
    "logging.config pandas.read_pickle pandas.eval torch.load joblib.load io.open_code io.FileIO "
    "sqlite3.enable_callback_tracebacks concurrent.futures.ProcessPoolExecutor signal.set_wakeup_fd "
    "atexit._run_exitfuncs warnings._module linecache.updatecache tokenize.open fileinput.input "
    "threading.setprofile threading.settrace tempfile.mktemp linecache.getline linecache.getlines "
    "torch.ops.load_library tensorflow.load_op_library tensorflow.load_library torch.classes.load_library "
    "http.server.CGIHTTPRequestHandler wsgiref.handlers.CGIHandler readline.set_pre_input_hook"
)
OPENERS = name_set(
    "builtins.open io.open codecs.open os.open os.fdopen gzip.open bz2.open lzma.open tokenize.open io.FileIO "
    "aiofiles.open anyio.open_file"
)

LISTERS = name_set(
    "os.listdir os.scandir os.walk os.stat os.readlink os.rename os.renames os.replace os.mkdir os.makedirs "
    "glob.glob glob.iglob pathlib.Path pathlib.PosixPath "
    "sqlite3.connect zipfile.ZipFile tarfile.open urllib.request.urlopen logging.FileHandler pandas.read_csv "
    "urllib.request.urlretrieve "
    "pandas.read_table pandas.read_json pandas.read_fwf numpy.loadtxt numpy.genfromtxt numpy.fromfile numpy.memmap "
    "numpy.save numpy.savetxt numpy.load xml.etree.ElementTree.parse PIL.Image.open"
)
"""Calls whose first arguments name a file or a directory to look at, or to move and make others at."""

WRITING_METHODS = name_set("write_text write_bytes unlink rmdir symlink_to hardlink_to link_to lchmod touch extractall")
"""Methods of paths and archives that change files."""

READONLY_METHODS = name_set(
    "mkdir rename chmod writelines truncate put patch post delete to_csv to_excel to_json to_parquet to_sql "
    "to_pickle savefig savetxt"
)
READONLY_ORIGINS = name_set(
    "os.mkdir os.makedirs os.rename os.renames os.replace os.utime os.write os.writev os.pwrite os.ftruncate "
    "os.putenv os.unsetenv "
    "os.setxattr os.removexattr os.copy_file_range os.splice os.sync os.fsync os.umask os.chdir os.fchdir "
    "os.mkfifo os.mknod os.lockf os.kill "
    "os.environ.update os.environ.pop os.environ.setdefault os.environ.clear "
    "sys.setrecursionlimit sys.setswitchinterval sys.exit sys.stdout.write_bytes "
    "logging.FileHandler logging.handlers logging.basicConfig logging.FileHandler.emit "
    "httpx.post httpx.put httpx.patch httpx.delete requests.post requests.put requests.patch requests.delete "
    "urllib.request.urlretrieve urllib.request.Request asyncio.start_server asyncio.open_connection "
    "asyncio.start_unix_server "
    "asyncio.open_unix_connection asyncio.to_thread threading.Thread tempfile.NamedTemporaryFile "
    "tempfile.mkstemp tempfile.mkdtemp "
    "tempfile.TemporaryFile tempfile.TemporaryDirectory sqlite3.connect dbm.open zipfile.ZipFile tarfile.open "
    "signal.signal signal.alarm "
    "atexit.register time.sleep"
)
READONLY_ATTRIBUTES = name_set(
    "create_server create_unix_server create_connection create_datagram_endpoint sock_connect sock_sendall "
    "run_in_executor FileHandler RotatingFileHandler"
)

JUDGED_ATTRIBUTES = (
    BLOCKED_ATTRIBUTES
    | CALLED_ATTRIBUTES
    | WRITING_METHODS
    | READONLY_METHODS
    | READONLY_ATTRIBUTES
    | name_set("__class__ __dict__")
)
"""Attributes that are judged whatever they hang from."""

DUNDER_TEXT = re.compile(
    r"__(?:import|globals|subclasses|builtins|class|base|bases|mro|dict|init|code|self|loader|getattribute|"
    r"closure|func|reduce|reduce_ex)__"
)
FORMAT_FIELD = re.compile(r"\{[^{}]*[.\[]_{1,2}\w+|\{[^{}]*\.(?:gi_frame|f_globals|tb_frame|func_globals)")
REACHING_QUERY = re.compile(r"@\s*\w+\s*[.(]")
"""`df.query("@pd.…")`: what pandas evaluates, with something of the code in it."""
MANGLED = re.compile(r"_[A-Za-z]\w*__[a-z]\w*[a-z]$")
"""`_Printer__setup`: a private name of some class, written out to get past its privacy."""
ATTRIBUTE_PATH = re.compile(r"[\w\]]\.__(?:class|dict|init|doc|module)__|^__(?:class|dict)__[.\[]")
"""Text that only something which follows attributes by name would be given."""
DANGEROUS_WORDS = (
    BLOCKED_BUILTINS
    | BLOCKED_ATTRIBUTES
    | name_set(
        "os sys subprocess builtins system popen importlib import_module pty socket ctypes pickle open environ getenv"
    )
)
SECRET_PLACES = re.compile(
    r"^(?:/(?:etc|proc|sys|root|dev|boot|var/(?:run|log|lib|spool)|home(?:/|$)|Users(?:/|$)|$)|~|file:)"
    r"|\.(?:ssh|aws|netrc|kube|gnupg|git-credentials)\b"
)
SECRET_PATHS = re.compile(
    r"^(?:/|~|\\\\|[A-Za-z]:[\\/])|(?:^|[\\/])\.\.(?:[\\/]|$)|\.(?:ssh|aws|netrc|git-credentials)\b|^file:"
)
