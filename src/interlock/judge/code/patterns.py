"""Languages other than Python, by pattern.

This check finds code that does not hide. A name built from pieces, an alias or an escape gets past it. The levels
`strict` and `readonly` promise more than patterns can find, so they refuse languages without a parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from interlock.judge.code.rules import CodeRules
from interlock.judge.code.secret_files import is_secret_text, mentions_secret_file
from interlock.judge.findings import Finding

_MODULES = {
    "javascript": r"child_process|cluster|worker_threads|vm|vm2|repl|inspector|module|net|dgram|tls|fs|"
    r"fs/promises|process|v8|wasi|http2",
    "ruby": r"open3|pty|fiddle|socket|shell|fileutils|drb|erb|rinda",
    "lua": r"ffi|socket|posix|lfs|debug",
    "go": r"os/exec|syscall|unsafe|plugin|net|runtime/debug|C",
    "java": r"java\.lang\.reflect|java\.lang\.invoke|javax\.script|sun\.misc|java\.net|java\.nio\.file|java\.rmi|"
    r"jdk\.internal",
    "rust": r"std::process|std::fs|std::net|libc|nix",
}
_CALLS = {
    "javascript": r"\beval\s*\(|\bnew\s+Function\b|\bFunction\s*\(|\bconstructor\s*[.\[(]\s*['\"(]?constructor|"
    r"\.constructor\s*\(|__proto__|\bimport\s*\(|"
    r"\bprocess\s*(?:\.|\[)\s*['\"]?(?:binding|dlopen|mainModule|kill|exit|env|abort|chdir|setuid)|"
    r"\bglobalThis\s*\[|\b(?:exec|spawn|fork)(?:Sync|File)?\s*\(|"
    r"\bDeno\s*\.\s*(?:run|Command|writ|remove|open)|\bBun\s*\.\s*(?:spawn|write|\$)|\bset(?:Timeout|"
    r"Interval)\s*\(\s*['\"`]|\bwith\s*\(|"
    r"\b(?:write|append|unlink|rm|rmdir|chmod|rename)(?:File|dir)?(?:Sync)?\s*\(|\brequire\s*\(\s*[^'\")\s]|"
    r"\bmodule\s*\.\s*(?:require|constructor)|\bWebAssembly\b",
    "ruby": r"`|%x[\[({<|!]|\b(?:system|exec|spawn|fork|eval|instance_eval|class_eval|module_eval|binding|syscall|"
    r"load|trap|exit!|at_exit|popen|send|public_send|"
    r"__send__|const_get|define_method|method|instance_variable_get)\b\s*[(\s'\".:]|\b(?:IO|File|Kernel|Process|"
    r"Dir|FileUtils|Open3|Object|Marshal|ObjectSpace)\s*(?:\.|::)",
    "php": r"`|\b(?:eval|assert|system|exec|shell_exec|passthru|popen|proc_open|pcntl_\w+|create_function|"
    r"call_user_func\w*|preg_replace_callback|include|include_once|"
    r"require|require_once|unserialize|dl|putenv|mail|fopen|file_put_contents|file_get_contents|unlink|rmdir|"
    r"chmod|fsockopen|curl_exec|extract|parse_str|"
    r"base64_decode|str_rot13|gzinflate|ini_set)\b\s*\(?|\$\w+\s*\(|\$\{|\$\$",
    "lua": r"\b(?:os\s*\.\s*(?:execute|remove|rename|exit|tmpname|getenv)|io\s*\.\s*(?:popen|open|output|lines)|"
    r"load|loadstring|loadfile|dofile|setfenv|getfenv|"
    r"rawset|rawget|setmetatable|getmetatable|collectgarbage|package|debug|require\s*\(?\s*[^'\"(\s])\b|_G\b|_ENV\b",
    "perl": r"`|\bqx\b|\b(?:system|exec|eval|fork|open|unlink|rmdir|syscall|require|do|kill|socket|chmod|rename|"
    r"link|symlink)\b|\$\{\^|use\s+(?:POSIX|IO|Socket|IPC|DynaLoader|Inline)",
    "java": r"\bRuntime\s*\.\s*getRuntime|\bProcessBuilder\b|\bClass\s*\.\s*forName|\bgetDeclared(?:Method|Field|"
    r"Constructor)|\bsetAccessible|\bScriptEngine|\bSystem\s*\.\s*"
    r"(?:exit|load|loadLibrary|getenv|setProperty)|\b(?:FileWriter|FileOutputStream|RandomAccessFile|Socket|"
    r"ServerSocket|URLClassLoader|ObjectInputStream)\b|\bFiles\s*\.\s*(?:write|delete|move|copy|create)|"
    r"\bUnsafe\b|\\u00[0-7]",
    "go": r"\bexec\s*\.\s*Command|\bsyscall\s*\.|\bunsafe\s*\.|\bos\s*\.\s*(?:Remove|RemoveAll|WriteFile|Create|"
    r"OpenFile|Chmod|Rename|StartProcess|Exit|Setenv|Mkdir)|\bplugin\s*\.\s*Open|//go:(?:linkname|generate|embed)|"
    r"#cgo|\bnet\s*\.\s*(?:Dial|Listen)|\bioutil\s*\.\s*WriteFile",
    "rust": r"\bCommand\s*::|\bunsafe\b|\bfs\s*::|\bTcpStream\b|\bTcpListener\b|\bUdpSocket\b|\binclude(?:_str|"
    r"_bytes)?!|\basm!|extern\s+\"C\"|#\[link|\benv!\s*\(",
    "r": r"\b(?:system2?|shell|eval|parse|source|file|unlink|writeLines|write|save|load|readRDS|dyn\.load|"
    r"Sys\.setenv|download\.file|install\.packages|do\.call|get|library\s*\(\s*parallel|socketConnection|pipe|"
    r"url)\s*\(|:::|`",
}
_ENVIRONMENTS = {
    "ruby": r"\bENV\b(?!\s*\[|\.(?:fetch|key\?|has_key\?|include\?|keys|delete)\b)",
    "perl": r"%ENV\b|\\%ENV\b",
    "php": r"\bgetenv\s*\(\s*\)|\$_(?:ENV|SERVER)\b(?!\s*\[)",
    "go": r"\bos\s*\.\s*Environ\s*\(",
    "rust": r"\benv\s*::\s*vars(?:_os)?\s*\(",
    "r": r"\bSys\.getenv\s*\(\s*\)",
}
"""All variables at once, in the languages whose other patterns let them pass."""
_QUOTED = re.compile(r"""(?<!\\)(?:"([^"\n]{3,256})"|'([^'\n]{3,256})'|`([^`\n]{3,256})`)""")
_ALIASES = {
    **dict.fromkeys(("js", "jsx", "node", "nodejs", "ts", "tsx", "typescript"), "javascript"),
    **dict.fromkeys(("groovy", "kotlin", "scala"), "java"),
    "golang": "go",
    "luajit": "lua",
    "pl": "perl",
    "rb": "ruby",
    "rs": "rust",
}
_SHELLS = frozenset({"bash", "sh", "shell", "zsh", "ksh", "dash"})
_ESCAPED = re.compile(r"\\(?:u\{?[0-9a-fA-F]{2,6}\}?|x[0-9a-fA-F]{2})")
_HINT = "leave it out, or have the code run by a tool in isolation"


def judge_by_pattern(code: str, rules: CodeRules) -> Iterator[Finding]:
    language = _ALIASES.get(rules.language.lower(), rules.language.lower())
    if language in _SHELLS:
        yield from _judge_shell(code, rules)
        return
    if language == "sql":
        from interlock.judge.sql import judge_readonly_sql

        if rules.level == "readonly":
            yield from judge_readonly_sql(code)
        return
    if language not in _CALLS:
        yield Finding(
            "code.language",
            f"{rules.language!r} cannot be judged",
            "use a language that can, or set the level to unrestricted",
        )
        return
    if rules.allowlists:
        yield Finding(
            "code.language",
            f"{rules.language!r} is judged by pattern only, which is not enough at {rules.level!r}",
            "write Python",
        )
    yield from _search(code, language, rules)


def _search(code: str, language: str, rules: CodeRules) -> Iterator[Finding]:
    modules = "|".join([_MODULES.get(language, "(?!)"), *(re.escape(name) for name in rules.blocked_imports)])
    # Go lists what it imports as bare strings in a block; elsewhere a keyword stands right before the name.
    quoted = """|['"]""" if language == "go" else ""
    imported = re.search(
        rf"""(?:\b(?:require|import|from|use|include|load)\b[\s(]{{0,8}}['"<]?{quoted})(?:node:)?({modules})(?=['">;:\s).]|$)""",
        code,
    )
    if imported and imported[1] not in rules.allowed_imports:
        yield Finding("code.import", f"Blocked import: {imported[1]!r}", _HINT, imported.span(1))
    called = re.search(_CALLS[language], code)
    if called:
        yield Finding("code.process", f"Blocked pattern: {called[0].strip()[:40]!r}", _HINT, called.span())
    yield from _search_secrets(code, language)
    escaped = _ESCAPED.search(code)
    if (
        escaped
        and language in ("javascript", "java")
        and not re.search(r"""['"`/]""", code[: escaped.start()].rpartition("\n")[2])
    ):
        yield Finding(
            "code.hidden_character", "an escape outside a string hides a name", "write the name", escaped.span()
        )


def _search_secrets(code: str, language: str) -> Iterator[Finding]:
    shown = re.search(_ENVIRONMENTS.get(language, "(?!)"), code)
    if shown:
        yield Finding("code.secret_variable", "reads all variables of the environment", _HINT, shown.span())
    for quoted in _QUOTED.finditer(code) if mentions_secret_file(code) else ():
        if is_secret_text(quoted[quoted.lastindex or 0]):
            yield Finding("code.secret_file", f"reads {quoted[0][-60:]}, which holds secrets", _HINT, quoted.span())
            return


def _judge_shell(code: str, rules: CodeRules) -> Iterator[Finding]:
    """A script is commands: joining them is its nature, so only what each one does is judged."""
    from interlock.judge.readonly import judge_readonly_shell
    from interlock.judge.shell import ShellRules, judge_shell

    if rules.level == "readonly":
        yield from judge_readonly_shell(code)
        return
    joins = (
        "sequence",
        "multiline",
        "conditional",
        "pipe",
        "control_flow",
        "variable",
        "assignment",
        "arithmetic",
        "redirect_in",
        "redirect_out",
        "heredoc",
        "subshell",
        "function",
    )
    yield from judge_shell(
        code, ShellRules(ignored=tuple(f"shell.{name}" for name in joins), max_length=rules.size_limit)
    )
