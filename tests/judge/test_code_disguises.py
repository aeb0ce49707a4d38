"""Names made while code runs, examples in docstrings, notebook commands, and loaders that run what they load."""

from __future__ import annotations

from cases import each_case
from interlock.judge.code import CodeRules, judge_code


def _rules(code: str) -> set[str]:
    return {finding.rule for finding in judge_code(code)}


@each_case(
    "code",
    [
        "n = bytes.fromhex('5f5f').decode() + 'x'\ngetattr((), n)",
        "import base64\nn = base64.b64decode('X18=').decode()\nprint(getattr(1, n))",
        "n = ''.join(chr(c) for c in [95, 95])\nsetattr(x, n, 1)",
        "n = 'ssalc'[::-1]\nm = n\ngetattr((), m + x)",
        "k = [c for c in dir(()) if 'lass' in c][0]\ngetattr((), k)",
        "for k in dir(()):\n    v = getattr((), k)",
        "def look(o, n):\n    return getattr(o, n)\nlook((), bytes.fromhex('5f').decode())",
        "look = lambda o, n: getattr(o, n)\nlook((), input())",
        "list(map(lambda n: getattr((), n), dir(())))",
        "getattr(x, a + b)",
        "getattr(x, f'{a}_b')",
        "getattr(x, 'po' + a)",
    ],
)
def test_a_name_that_was_hidden_is_not_looked_up(code: str) -> None:
    assert "code.dynamic_attribute" in _rules(code)


@each_case(
    "code",
    [
        "def show(record, fields):\n    return [getattr(record, field) for field in fields]",
        "def visit(self, node):\n    return getattr(self, 'visit_' + kind)(node)",
        "def visit(self, node):\n    return getattr(self, f'visit_{kind}')(node)",
        "handler = 'on_%s' % event\ngetattr(self, handler)()",
        "for k in dir(x):\n    if not k.startswith('_'):\n        print(getattr(x, k))",
        "name = row['field']\nprint(getattr(x, name))",
        "class A:\n    def copy(self):\n        return self.__class__(self.a)",
        "class A:\n    def __eq__(self, other):\n        return self.__class__ is other.__class__",
        "isinstance(a, b.__class__)",
        "def f(x):\n    match x:\n        case True | None:\n            return getattr(x, name)",
    ],
)
def test_names_that_are_somebody_s_choice_of_a_field_are(code: str) -> None:
    assert judge_code(code) == ()


@each_case(
    "code", ["!ls", "  !!ls", "x = !ls", "%%bash\nls", "%run a.py", "x = %sx ls", "import re\n!ls\nre.compile('a')"]
)
def test_notebook_commands_are_no_python(code: str) -> None:
    assert _rules(code) == {"code.unparsable"}


def test_a_sign_at_the_beginning_of_a_line_is_an_expression_going_on() -> None:
    assert judge_code("x = ('%d of %d'\n     %counts)\ny = (a\n     != b)\nz = '''\n!ls\n'''") == ()


DOCTEST = "\nif __name__ == '__main__':\n    import doctest\n    doctest.testmod()\n"


def test_examples_in_docstrings_may_be_run_when_they_are_harmless() -> None:
    assert judge_code("def double(x):\n    '''\n    >>> double(2)\n    4\n    '''\n    return 2 * x" + DOCTEST) == ()


@each_case(
    "code",
    [
        "def f():\n    '''\n    >>> import subprocess\n    '''" + DOCTEST,
        "def f():\n    '''\n    >>> for i in 'a':\n    ...     eval(i)\n    '''" + DOCTEST,
        "'\\x3e>> eval(1)'" + DOCTEST,
        "def f(): pass\nf.__doc__ = x" + DOCTEST,
        "__test__ = {'a': x}" + DOCTEST,
        "import doctest\ndoctest.testfile('a')",
        "import doctest\ndoctest.testmod(other)",
        "from doctest import testmod as run\nrun(other)",
        "import doctest\nrun = doctest.testmod\nrun(other)",
        "import doctest\ngetattr(doctest, 'test' + 'mod')(other)",
        "from doctest import *",
    ],
)
def test_examples_are_code_and_only_those_in_the_text_are_run(code: str) -> None:
    assert judge_code(code)


def test_an_operator_s_block_list_wins_over_judging_the_examples() -> None:
    assert judge_code("import doctest\ndoctest.testmod()", CodeRules(blocked_imports=("doctest",)))


@each_case(
    "code",
    [
        "import pandas as pd\npd.DataFrame().query('@pd.compat.os.getcwd()')",
        "import numpy as np\nnp.lib.format.read_array(f, allow_pickle=True)",
        "from ruamel.yaml import YAML\nYAML(typ='unsafe')",
        "import keras\nkeras.models.load_model('a', safe_mode=False)",
        "import urllib.request\nurllib.request.urlopen('file:///etc/hosts')",
        "import pandas as pd\npd.read_csv('/etc/passwd')",
        "import numpy as np\nnp.loadtxt('/etc/passwd')",
        "import js2py",
        "import asyncssh",
        "get_ipython().run_line_magic('sx', 'ls')",
    ],
)
def test_loaders_and_bridges_that_run_or_reach_more_than_they_show_are_refused(code: str) -> None:
    assert judge_code(code)


@each_case(
    "code",
    [
        "import pandas as pd\ndf = pd.read_csv('data/a.csv')\nprint(df.query('a > @limit'))",
        "import numpy as np\nnp.save('out.npy', x)\nnp.load('a.npy', allow_pickle=False)",
        "session.query(User).filter_by(a=1)",
        "import urllib.request\nurllib.request.urlopen('https://example.com')",
    ],
)
def test_their_ordinary_uses_pass(code: str) -> None:
    assert judge_code(code) == ()


@each_case(
    "code",
    [
        "eval = eval\neval('1')",
        "exec = 1\nexec('1')",
        "for exec in [exec]:\n    exec('1')",
        "(compile := compile)('1', '', 'exec')",
        "class A:\n    run = 1\n    exec = exec",
        "help = help\nhelp()",
        "getattr = getattr\nprint(list(map(getattr, x)))",
        "open = open\nwrite = open\nwrite('a', 'w')",
    ],
)
def test_a_builtin_bound_to_its_own_name_is_what_it_was(code: str) -> None:
    assert judge_code(code)


def test_a_column_called_open_is_no_file() -> None:
    assert judge_code("open, close = row\nprint(close - open)") == ()


@each_case(
    "code",
    [
        "def f(open): pass\nopen('a', 'w')",
        "def f(open): pass\nwrite = open\nwrite('a', 'w')",
        "def f():\n    open = 1\nopen('a', 'w')",
        "def f(getattr): pass\nprint(list(map(getattr, x)))",
        "class A:\n    def help(self, help): pass\nhelp()",
    ],
)
def test_a_builtin_is_not_hidden_by_a_name_in_another_scope(code: str) -> None:
    assert judge_code(code)


@each_case(
    "code",
    [
        "def spread(open, close):\n    return close - open",
        "def f():\n    open = 1\n    return open",
        "for open in prices:\n    print(open)",
    ],
)
def test_a_name_of_ones_own_is_nothing_built_in(code: str) -> None:
    assert judge_code(code) == ()


@each_case(
    "code",
    [
        "import os\ndef f(m):\n    m.remove('a')\nf(os)",
        "import os\n(lambda m: m.remove('a'))(os)",
        "import os\ndef f():\n    return os\nf().remove('a')",
        "import os\nd = dict(o=os)\nd['o'].remove('a')",
        "import os\nmatch os:\n    case object(remove=r):\n        r('a')",
        "import os\nclass A:\n    def f(self):\n        self.o = os",
        "import os\nclass A:\n    o = os\nA.o.remove('a')",
        "import os as o\nprint(o.getcwd())\nf(o)",
        "import sys\nx = [sys]",
        "def f():\n    print(os.getcwd(), g(os))\n    if x:\n        import os",
    ],
)
def test_a_module_with_dangerous_things_in_it_is_not_handed_on(code: str) -> None:
    assert judge_code(code)


def test_a_module_may_be_renamed_and_asked_about() -> None:
    assert judge_code("import os\np = os\nprint(p.getcwd(), hasattr(os, 'name'), os is not None)") == ()
