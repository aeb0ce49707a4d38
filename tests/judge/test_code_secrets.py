"""Secrets in code: files that hold them, and variables of the environment."""

from __future__ import annotations

from cases import each_case
from interlock.judge.code import CodeRules, judge_code
from processor_work import calls_of

PROCESSES = CodeRules(allowed_imports=("subprocess",))


def rules_of(code: str, rules: CodeRules | None = None) -> set[str]:
    return {finding.rule for finding in judge_code(code, rules or CodeRules())}


@each_case(
    "code",
    [
        "open('.env').read()",
        "from pathlib import Path\nprint(Path('.env').read_text())",
        "from pathlib import Path\nprint((Path.home() / '.ssh' / 'id_rsa').read_text())",
        "import os\nopen(os.path.expanduser('~/.ssh/id_ed25519'))",
        "import os\nos.path.join(home, '.aws', 'credentials')",
        "x = f'{home}/.aws/credentials'",
        "import glob\nglob.glob('/home/me/.ssh/id_*')",
        "p = '.e' + 'nv'\nopen(p)",
        "from pathlib import Path\nPath('.e' + 'nv')",
        "PATHS = ['.env', 'a']\nfor p in PATHS: read(p)",
        "import sqlite3\nsqlite3.connect('/Users/me/Library/Application Support/Google/Chrome/Default/Cookies')",
        "x = '~/Library/Application Support/Google/Chrome/Default/Login Data'",
        'read("\\x2eenv")',
        "read(b'/x/.env.local')",
        "open('server.key')",
        "from pathlib import Path\nPath('terraform.tfstate')",
    ],
)
def test_a_file_of_secrets_is_not_read(code: str) -> None:
    assert "code.secret_file" in rules_of(code)


@each_case(
    "code",
    [
        "import os\nprint(os.environ)",
        "import os\nprint(dict(os.environ))",
        "import os\nprint(dict(os.environ), f(env=1))",
        "import os, json\njson.dumps(dict(os.environ))",
        "import os\nfor k, v in os.environ.items(): print(k, v)",
        "import os\nfor k in os.environ: print(os.environ[k])",
        "from os import environ\nprint({**environ})",
        "import os as o\ne = o.environ\nprint(e)",
        "import os\nreturn_ = f'{os.environ}'",
        "import os\ne = os.environ.copy()\nprint(e)",
        "import os\ne = dict(os.environ)\ne['A'] = 'b'\nsend(e)",
        "import os\nprint(dict(env=dict(os.environ)))",
        "import os\nshow(env=os.environ)",
        "import os\nprint(os.environ['OPENAI_API_KEY'])",
        "import os\nk = os.getenv('GITHUB_TOKEN')\nprint(f'k {k}')",
        "from os import getenv as g\nprint(g('DB_PASSWORD') or '')",
        "import os\nget = os.environ.get\nprint([get('API_KEY')])",
        "import os\nmap(os.environ.get, names)",
        "import os\nprint(os.environ['API' + '_KEY'])",
        "import os\nos.environ[input()]",
        "import os\nprint(getattr(os, 'environ')['API_KEY'])",
        "import os\nprint(getattr(os, 'environ'))",
        "import os\nprint(os.environ.values())",
        "import os\nprint(os.environ | {})",
        "import os\nprint(os.environb)",
        "import os\ndef f(): return os.environ",
        "import os\nx = [os.environ]",
        "import os\nlambda: os.environ",
        "print(os.environ)",
        "import os\nprint(os.\uff45nviron)",
        "import os\nprint(str(os.environ))",
        "import os\nprint(*os.environ.items())",
        "import os\nwith a as b: f(**os.environ)",
    ],
)
def test_the_environment_is_not_shown(code: str) -> None:
    assert "code.secret_variable" in rules_of(code)


@each_case(
    "code",
    [
        'import os\nos.environ["PORT"]',
        'import os\nos.environ.get("HOME")',
        "import os\nos.getenv('DEBUG', '0') == '1'",
        "import os\nos.environ['A'] = 'b'",
        "import os\nos.environ.setdefault('MPLBACKEND', 'Agg')",
        "import os\n'CI' in os.environ",
        "import os\nif 'GITHUB_TOKEN' in os.environ: pass",
        "import os\nprint(sorted(os.environ))",
        "import os\nprint(len(os.environ))",
        "import os\ndel os.environ['X']",
        "import os\ndef env(name): return os.environ[name]\nprint(env('PORT'))",
        "SKIP = {'.git', '.env'}\nfor n in names:\n    if n in SKIP: continue",
        "print('.env')",
        "name.endswith('.env')",
        "if name in ('.env', '.git'): pass",
        "x = 'copy .env.example to .env'",
        "open('.env.example')",
        'def f():\n    """Reads.\n\n    >>> open(\'.env\').read()\n    """',
        "x = {'secret.key': 1}",
        "import os\nClient(api_key=os.environ['API_KEY'])",
        "from pydantic_settings import SettingsConfigDict\nSettingsConfigDict(env_file='.env')",
        "from dotenv import load_dotenv\nload_dotenv('.env')",
        "d.get('user.key')",
        "import os\nenv = {'A': os.environ['PATH']}",
        "from dotenv import load_dotenv\nload_dotenv()",
        "open('id_map.csv')",
        "key = 'id_rsa_count'",
        "import os\nos.path.join('data', 'tokens.json')",
        "fetch('https://x.y/settings/tokens')",
    ],
)
def test_code_uses_settings_and_names_of_files(code: str) -> None:
    assert rules_of(code) == set()


@each_case(
    ("code", "shown"),
    [
        ("env={**os.environ, 'A': 'b'})", False),
        ("env=dict(os.environ))", False),
        ("env=os.environ | {'A': 'b'})", False),
        ("env=e)\ne = os.environ.copy()\ne['A'] = 'b'", False),
        ("env=e)\ne = os.environ.copy()\nprint(e)", True),
        ("env=dict(os.environ))\nprint(dict(os.environ))", True),
        ("env=dict(os.environ), a=dict(os.environ))", True),
    ],
)
def test_a_process_is_given_the_environment_and_nobody_else(code: str, shown: bool) -> None:
    found = rules_of(f"import os, subprocess\nsubprocess.run(['make'], {code}", PROCESSES)
    assert found == ({"code.secret_variable"} if shown else set())


_SETTINGS = "from pydantic_settings import BaseSettings\nclass S(BaseSettings):\n    api_key: str\n"
_OWN = "def own(path):\n    print(path)\n"


@each_case(
    ("code", "rule"),
    [
        ("import os\nclass A:\n    key = os.environ['API_KEY']\nprint(A.key)", "code.secret_variable"),
        (
            "import os\nclass A:\n    def f(self):\n        self.k = os.getenv('TOKEN')\nprint(A().k)",
            "code.secret_variable",
        ),
        ("import os\nclass A:\n    token: str = os.environ['TOKEN']\nprint(asdict(A()))", "code.secret_variable"),
        ("import os\nclass A:\n    key = os.environ['API_KEY']\nprint(vars(A))", "code.secret_variable"),
        ("import os\nclass A:\n    every = os.environ\nprint(A.every)", "code.secret_variable"),
        ("import os\nA.every = os.environ\nprint(dict(A.every))", "code.secret_variable"),
        ("import os\nclass A:\n    every = dict(os.environ)\n", "code.secret_variable"),
        ("from dotenv import dotenv_values\nprint(dotenv_values())", "code.secret_variable"),
        ("from dotenv import dotenv_values\nc = dotenv_values()\nprint(c)", "code.secret_variable"),
        ("from decouple import config\nprint(config('API_KEY'))", "code.secret_variable"),
        (f"{_SETTINGS}print(S().model_dump())", "code.secret_variable"),
        (f"{_SETTINGS}s = S()\nprint(f'{{s!r}}')", "code.secret_variable"),
        (f"{_SETTINGS}print(S().api_key)", "code.secret_variable"),
        ("from app.config import settings\nprint(settings.model_dump_json())", "code.secret_variable"),
        ("from app.config import get_settings\ns = get_settings()\nprint(s.dict())", "code.secret_variable"),
        ("from django.conf import settings\nprint(settings.SECRET_KEY)", "code.secret_variable"),
        (f"import dotenv\n{_OWN}dotenv.load_dotenv = own\ndotenv.load_dotenv('.env')", "code.secret_file"),
        (f"import dotenv\n{_OWN}dotenv.load_dotenv, x = own, 1\ndotenv.load_dotenv('.env')", "code.secret_file"),
        (f"import dotenv\n{_OWN}patch('dotenv.load_dotenv', own)\ndotenv.load_dotenv('.env')", "code.secret_file"),
        (f"import dotenv\n{_OWN}dotenv.main.DotEnv = own\ndotenv.load_dotenv('.env')", "code.secret_file"),
    ],
)
def test_secrets_in_attributes_settings_and_replaced_loaders_are_found(code: str, rule: str) -> None:
    assert rule in rules_of(code)


@each_case(
    "code",
    [
        "import os\nclass A:\n    key = os.environ['API_KEY']\n    port = os.environ['PORT']\nprint(A.port)",
        "import os\nclass A:\n    def f(self):\n        self.env = os.environ\nprint(A().env.get('PORT'))",
        "from dotenv import load_dotenv\nload_dotenv('.env')\nprint('loaded')",
        "from dotenv import dotenv_values\nClient(dotenv_values()['API_KEY'])",
        f"{_SETTINGS}    port: int = 80\nprint(S().port)",
        "from app.config import settings\nClient(settings.api_key)\nprint(settings.port)",
        "from pydantic import BaseModel\nclass User(BaseModel):\n    name: str\nprint(User(name='x').model_dump())",
    ],
)
def test_attributes_and_settings_that_are_no_secrets_may_be_shown(code: str) -> None:
    assert rules_of(code) == set()


def test_examples_are_code_where_they_are_run() -> None:
    code = 'def f():\n    """Reads.\n\n    >>> print(open(\'.env\').read())\n    """\n'
    assert rules_of(code) == set()
    assert rules_of(f"import doctest\n{code}\ndoctest.testmod()") == {"code.secret_file"}


@each_case(
    ("language", "code", "rule"),
    [
        ("javascript", "read('.env')", "code.secret_file"),
        ("java", 'Path.of("/root/.ssh/id_rsa")', "code.secret_file"),
        ("go", 'os.ReadFile("/home/a/.aws/credentials")', "code.secret_file"),
        ("go", "fmt.Println(os.Environ())", "code.secret_variable"),
        ("ruby", "puts ENV.to_h", "code.secret_variable"),
        ("rust", "for (k, v) in std::env::vars() {}", "code.secret_variable"),
        ("php", "<?php print_r($_ENV);", "code.secret_variable"),
        ("r", "print(Sys.getenv())", "code.secret_variable"),
        ("ruby", "puts ENV['PORT']", ""),
        ("php", "<?php echo $_SERVER['HOST'];", ""),
        ("r", "Sys.getenv('HOME')", ""),
    ],
)
def test_secrets_in_other_languages_are_found_by_pattern(language: str, code: str, rule: str) -> None:
    assert rules_of(code, CodeRules(language=language)) == ({rule} if rule else set())


@each_case(
    "line",
    [
        "print(os.environ)",
        "k = os.environ['A_TOKEN']; print(k)",
        "e = dict(os.environ); print(e)",
        "f('" + "/.aws" * 40 + "')",
        "S = {'.env'}; a in S",
        "A.k = os.environ['A_TOKEN']; print(A.k)",
        "A.e = os.environ; print(A.e)",
        "print(settings.token, settings.dict())",
    ],
)
def test_the_work_grows_with_the_code(line: str) -> None:
    once, twice = ("import os\n" + f"{line}\n" * count for count in (40, 80))
    assert calls_of(lambda: judge_code(twice)) < 2.5 * calls_of(lambda: judge_code(once))
