"""The `code_safety` validator: levels, lists, and the ways around them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cases import each_case
from interlock.judge.code import CodeRules, judge_code, rejection
from interlock.judge.code.children import children_of
from interlock.judge.findings import Finding

STRICT = CodeRules(level="strict")
READONLY = CodeRules(level="readonly")


def rules_of(code: str, rules: CodeRules | None = None) -> set[str]:
    return {finding.rule for finding in judge_code(code, rules or CodeRules())}


@each_case(
    "code",
    [
        "print('hello')",
        "import json\njson.loads('{}')",
        "import os\nprint(os.environ.get('HOME'))",
        "import re\nre.compile('a').match('b')",
        "from pathlib import Path\nprint(Path('a').read_text())",
        "open('data.csv').read()",
        "with open('a.json', encoding='utf-8') as f:\n    f.read()",
        "text = 'never call eval( or os.system('",
        "'''import subprocess'''",
        "class A:\n    def __init__(self):\n        super().__init__()",
        "x.__class__.__name__",
        "getattr(x, 'name', None)",
        "getattr(self, field)",
        "setattr(self, key, 1)",
        "import platform\nplatform.system()",
        "model.eval()",
        "cursor.execute('select 1')",
        "config.system",
        "import sys\nsys.path.insert(0, 'lib')",
        "'{} {}'.format(1, 2)",
        "import asyncio\nasyncio.run(main())",
        "import logging\nlogging.getLogger(__name__)",
        "vars(args)",
        "import inspect\ninspect.signature(f)",
        "import yaml\nyaml.safe_load(a)",
        "import httpx\nhttpx.get('https://example.org')",
        "print('caf\u00e9 \u2014 \u8cc7\u6599')",
        "from importlib.metadata import version",
        "x = 'a' + 'b'",
        "def compile_all(): ...",
        "help_text = 'a'",
    ],
)
def test_ordinary_code_passes_at_standard(code: str) -> None:
    assert judge_code(code) == ()


@each_case(
    "code",
    [
        "import subprocess",
        "import subprocess as s",
        "from subprocess import run",
        "import os.path, socket",
        "import ctypes",
        "import pickle",
        "from os import system",
        "from os import system as s",
        "from os import *",
        "import os\nos.system('a')",
        "import os\nf = os.popen\nf('a')",
        "import os as o\no.execvp('a', [])",
        "import os\n(lambda f=os.system: f('a'))()",
        "import os\nmap(os.system, x)",
        "import os\n[os][0].fork()",
        "eval('1')",
        "e = eval",
        "[exec][0]('1')",
        "compile('1', '', 'eval')",
        "__import__('os')",
        "(__import__)('os')",
        "@exec\nclass A: ...",
        "getattr(os, 'sys' + 'tem')",
        "getattr(x, '__cl' + 'ass__')",
        "getattr(x, '__ssalc__'[::-1])",
        "getattr(x, ''.join(map(chr, [115, 121, 115, 116, 101, 109])))",
        "getattr(x, f'__{a}__')",
        "g = getattr",
        "import importlib\nimportlib.import_module('os')",
        "from importlib import import_module",
        "__builtins__['eval']",
        "__builtins__.__dict__",
        "globals()['x']",
        "locals()",
        "import sys\nsys.modules['os']",
        "import sys\nsys._getframe()",
        "().__class__.__bases__",
        "[].__class__",
        "object.__subclasses__()",
        "f.__globals__",
        "f.__code__",
        "int.mro()",
        "print.__self__",
        "g.gi_frame",
        "c.cr_frame",
        "e.__traceback__.tb_frame",
        "x.f_back.f_globals",
        "'{0.__class__}'.format(x)",
        "'{0.\\x5f_class__}'.format(x)",
        "import random\nrandom._os.getcwd()",
        "import glob\nglob.os",
        "from glob import os",
        "import a.b as c\nc.sys.modules",
        "import os\nvars(os)['system']",
        "import os\nos.__dict__['system']",
        "\uff45\uff56\uff41\uff4c('1')",
        "x.__\U0001d4b8lass__",
        "match x:\n    case object(__class__=c): ...",
        "class A:\n    def __reduce__(self): ...",
        "import yaml\nyaml.load(a)",
        "import types\ntypes.FunctionType(a, {})",
        "help()",
        "breakpoint()",
        "import typing\ntyping.get_type_hints(a)",
        "import functools\nfunctools.reduce(getattr, a)",
        "import operator\noperator.attrgetter('__class__')",
        "open('/etc/passwd')",
        "open('../a')",
        "open(path)",
        "open('a', 'w')",
        "open('a', mode='a')",
        "open(*a)",
        "from pathlib import Path\nPath('a').unlink()",
        "from pathlib import Path\nPath('a').open('w')",
        "from pathlib import Path\np = Path('a')\nwith p.open('ab') as file:\n    file.write(b'x')",
        "import os\nos.remove('a')",
        "import os\nos.chmod('a', 0)",
        "asyncio.create_subprocess_exec('a')",
        "import sys\nsys.meta_path.append(a)",
        "a = '__import__(\"os\")'",
        "def f(x=eval): ...",
        "(y := eval)",
        "import os\nwith a as b, os.popen('x') as c: ...",
        "import os\nfor f in [os.system]: f(1)",
        "import logging.config\nlogging.config.dictConfig({})",
        "x = b'__import__'",
        "# coding: utf-7\nx",
        "x = 1\u202e",
        "import os\x00",
        "type('A', (), {'__annotations__': a})",
        "sqlite.enable_load_extension(True)",
        "setattr(x, '__class__', y)",
        "s = '{0.__cla' + 'ss__}'\ns.format(1)",
        "'{x.__init__}'.format(x=1)",
        "import traceback\ntraceback.walk_stack(None)",
        "import tkinter\ntkinter.Tk().tk.eval('exec id')",
        "import os\nos.rename('/etc/passwd', 'a')",
        "from os import (  # )\n    system\n)\nsystem('id')",
        "from a import (b, os)",
        "import http . server",
        "from http \\\n import server",
        "from http import(server)",
        "if 1:from http import server",
        "import os\nos.replace('a', '/etc/cron.d/a')",
    ],
)
def test_ways_out_are_refused_at_standard(code: str) -> None:
    assert judge_code(code)


def test_what_does_not_parse_is_refused_wherever_there_is_something_to_judge() -> None:
    assert rules_of("eval(") == {"code.unparsable"}
    assert rules_of("import json; x =", STRICT) == {"code.unparsable"}


def test_strict_allows_only_listed_imports() -> None:
    assert judge_code("import json", STRICT) == ()
    assert rules_of("import numpy", STRICT) == {"code.import"}
    assert judge_code("import numpy", CodeRules(level="strict", allowed_imports=("numpy",))) == ()
    assert rules_of("import json", CodeRules(level="strict", allowed_imports=("numpy",))) == {"code.import"}


def test_a_blocked_import_wins_over_an_allowed_one() -> None:
    rules = CodeRules(level="strict", allowed_imports=("httpx",), blocked_imports=("httpx",))
    assert rules_of("import httpx", rules) == {"code.import"}


def test_standard_lets_through_what_the_operator_allows() -> None:
    assert judge_code("import socket", CodeRules(allowed_imports=("socket",))) == ()


@each_case(
    "code",
    [
        "import os\nos.mkdir('a')",
        "import os\nos.rename('a', 'b')",
        "open('a', 'x')",
        "Path('a').touch()",
        "import os\nos.environ.update({})",
        "import httpx\nhttpx.post('https://example.org')",
        "client.delete('/a')",
        "import sys\nsys.exit()",
        "input()",
        "while True:\n    pass",
        "10 ** 10 ** 10",
        "import asyncio\nasyncio.start_server(f)",
        "import tempfile",
        "import logging\nlogging.FileHandler('a')",
        "frame.to_csv('a')",
        "import time\ntime.sleep(5)",
        "import os\nos.putenv('A', 'b')",
    ],
)
def test_readonly_refuses_effects(code: str) -> None:
    assert judge_code(code, READONLY)


@each_case(
    "code",
    [
        "import json\nprint(json.dumps({'a': 1}))",
        "import math\nprint(math.pi ** 2)",
        "import os\nprint(os.listdir('.'))",
        "open('a').read()",
    ],
)
def test_readonly_lets_code_read(code: str) -> None:
    assert judge_code(code, READONLY) == ()


def test_unrestricted_restricts_only_size() -> None:
    rules = CodeRules(level="unrestricted", max_code_size_bytes=20)
    assert judge_code("eval('1')", rules) == ()
    assert rules_of("x" * 21, rules) == {"code.too_large"}


def test_size_is_counted_in_bytes() -> None:
    assert judge_code("'\u20ac'", CodeRules(max_code_size_bytes=5)) == ()
    assert rules_of("'\u20ac'", CodeRules(max_code_size_bytes=4)) == {"code.too_large"}


def test_patterns_of_the_tool_are_found_with_their_place() -> None:
    (finding,) = judge_code("x = transfer(1)", CodeRules(blocked_patterns=("transfer(",)))
    assert finding.rule == "code.pattern"
    assert finding.span == (4, 13)


def test_a_finding_points_at_the_code() -> None:
    code = "import json\nx = eval('1')\n"
    (finding,) = judge_code(code)
    assert finding.span is not None
    assert code[slice(*finding.span)] == "eval"


def test_spans_count_characters_when_the_code_is_not_ascii() -> None:
    code = "# gr\u00fc\u00dfe\r\nx = '\u8cc7\u6599', eval('1')\n"
    (finding,) = judge_code(code)
    assert finding.span is not None
    assert code[slice(*finding.span)] == "eval"


def test_a_rejection_has_the_form_of_the_protocol() -> None:
    rules = CodeRules(
        level="strict", blocked_imports=("subprocess",), allowed_imports=("asyncio", "json"), max_code_size_bytes=10_000
    )
    answer = rejection(judge_code("import subprocess\neval('1')", rules), rules)
    assert answer["status"] == "rejected"
    assert answer["reason"] == "Code validation failed"
    assert answer["violations"] == ["Blocked import: 'subprocess'", "Blocked pattern: 'eval'"]
    hints = answer["hints"]
    assert isinstance(hints, dict)
    assert "subprocess" in hints["blocked_imports"]
    assert hints["allowed_imports"] == ["asyncio", "json"]
    assert hints["max_code_size_bytes"] == 10_000


def test_a_rule_can_be_switched_off() -> None:
    assert judge_code("eval('1')", CodeRules(ignored=("code.builtin",))) == ()


@each_case(
    ("language", "code"),
    [
        ("javascript", "const cp = require('child_process')"),
        ("js", "import fs from 'node:fs'"),
        ("typescript", "eval('1')"),
        ("javascript", "this.constructor.constructor('return process')()"),
        ("ruby", "system 'ls'"),
        ("ruby", "`ls`"),
        ("php", "<?php shell_exec('ls');"),
        ("lua", "os.execute('ls')"),
        ("perl", "qx(ls)"),
        ("java", 'Runtime.getRuntime().exec("ls")'),
        ("go", 'import "os/exec"'),
        ("rust", 'std::process::Command::new("ls")'),
        ("r", "system('ls')"),
        ("bash", "curl a | sh"),
        ("sh", "rm -rf x"),
        ("cobol", "DISPLAY 1"),
    ],
)
def test_other_languages_are_judged_by_pattern_and_unknown_ones_refused(language: str, code: str) -> None:
    assert judge_code(code, CodeRules(language=language))


@each_case(
    ("language", "code"),
    [
        ("javascript", "const x = [1, 2].map((n) => n * 2)\nconsole.log(x)"),
        ("ruby", "puts [1, 2].map { |n| n * 2 }"),
        ("lua", "print(1 + 1)"),
        ("go", "package main\nfunc main() { println(1) }"),
        ("bash", 'for f in *.txt; do wc -l "$f"; done'),
    ],
)
def test_plain_code_in_other_languages_passes_at_standard(language: str, code: str) -> None:
    assert judge_code(code, CodeRules(language=language)) == ()


def test_patterns_are_not_enough_for_strict() -> None:
    assert rules_of("1 + 1", CodeRules(level="strict", language="javascript")) == {"code.language"}


def test_findings_are_plain_values() -> None:
    assert all(
        isinstance(finding, Finding) and finding.rule and finding.message and finding.hint
        for finding in judge_code("import os\nos.system(eval('1'))")
    )


@each_case(
    "code",
    [
        "[0] * 10**12",
        "'a' * 99999999999",
        "9**9**9",
        "1 << 10**10",
        "while True: pass",
        "while 1:\n    continue",
        "copyright._Printer__filenames = ['/etc/passwd']",
        "x.__setattr__('__class__', y)",
        "import string\nstring.Formatter().get_field('0.__class__.__base__', (1,), {})",
        "from pathlib import Path\nPath('/root/.ssh/id_rsa').read_text()",
        "import os\nos.walk('/etc')",
        "from transformers import AutoModel\nAutoModel.from_pretrained('x', trust_remote_code=True)",
        "import http.server",
        "import inspect\ninspect.getmodule(f).__dict__",
    ],
)
def test_what_exhausts_pries_or_looks_where_it_should_not_is_refused(code: str) -> None:
    assert judge_code(code, CodeRules())


@each_case(
    "code",
    [
        "print(2 ** 64, 10 ** 20, 1 << 32, 3 ** 5000)",
        "print('-' * 80)\nboard = [[0] * 8 for _ in range(8)]",
        "while True:\n    x = 1\n    break",
        "from pathlib import Path\nprint(Path('data') / 'x.csv')",
        "def f(**options): return options",
    ],
)
def test_ordinary_sizes_loops_and_paths_pass(code: str) -> None:
    assert judge_code(code, CodeRules()) == ()


def test_judging_code_with_odd_literals_warns_nobody(recwarn: pytest.WarningsRecorder) -> None:
    judge_code("x = 1if y else 2\nimport os\nos.system('id')", CodeRules())
    assert not recwarn.list


def test_every_inner_node_that_may_hold_code_is_read() -> None:
    leaves = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop, ast.alias)
    matches = "match a:\n    case {'x': [b, *c], **d} | B(e=1): f'{x:{y}}'\n"
    awaits = "async def f(*a: int, b=1, **c): await g(*a, **c)\n"
    for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8") + matches + awaits)):
        children = children_of(type(node))
        read = [each for each in children(node) if isinstance(each, ast.AST)] if children is not None else []
        expected = [each for each in ast.iter_child_nodes(node) if not isinstance(each, leaves)]
        assert {id(each) for each in read if not isinstance(each, leaves)} == {id(each) for each in expected}
