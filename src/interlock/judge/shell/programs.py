"""Tables of programs and the options with which they run code, load libraries, destroy data or raise privileges.

A row says what an option does; the spellings of an option are `flags.py`'s business.
"""

from __future__ import annotations

import re

from interlock.judge.shell.flags import names

SHELLS = names(
    "sh ash bash csh dash fish ksh ksh88 ksh93 mksh pdksh posh rbash rksh tcsh yash zsh xonsh elvish nu hush osh "
    "rc sash"
)
PRIVILEGE = names(
    "swapoff systemd-run chattr useradd usermod userdel adduser deluser addgroup groupadd groupmod setenforce auditctl "
    "csrutil spctl dscl dseditgroup sysadminctl mknod "
    "umount sudo sudoedit doas su runuser pkexec sg newgrp setpriv capsh unshare nsenter chroot machinectl gosu "
    "su-exec run0 please "
    "setcap visudo vipw chpasswd gpasswd kexec dzdo pbrun calife super sux"
)
DESTROYERS = names(
    "mkfs mke2fs mkswap mkntfs wipefs blkdiscard shred srm wipe scrub newfs lvremove vgremove pvremove mdadm zerofree "
    "secure-delete sfill nwipe format insmod rmmod modprobe halt reboot poweroff shutdown telinit killall5"
)
EVALUATORS = names("eval source . trap")
"""Builtins that run their arguments as shell text."""

BARE_READERS = names(
    "tclsh wish expect perl php python python2 python3 node ruby lua luajit osascript jrunscript busybox ksshell screen"
)
"""Interpreters that, started with nothing, read a program from standard input."""

_LATEX = "--shell-escape -shell-escape -enable-write18 --enable-write18"
_VIM = "-c --cmd -S -s"

CODE_FLAGS: dict[str, tuple[str, str]] = {
    # program: options that run code or a program, and the letters that take values
    "python": ("-c", "mWXQ"),
    "perl": ("-e -E -M -d", "IxCF"),
    "ruby": ("-e -r", "ICEFTWKx"),
    "node": ("-e --eval -p --print -r --require --import --experimental-loader --loader -pe", ""),
    "bun": ("-e --eval -p --print -r --preload", ""),
    "deno": ("eval --preload --import-map", ""),
    "php": ("-r -B -R -E -a -d", "fFSt"),
    "lua": ("-e -l", ""),
    "luajit": ("-e -l -j", ""),
    "julia": ("-e --eval -E --print -L --load -i", "JCpt"),
    "Rscript": ("-e", ""),
    "R": ("-e", ""),
    "octave": ("--eval --exec-path --persist", ""),
    "ghc": ("-e -pgmF -F", "*"),
    "ghci": ("-e", "*"),
    "scala": ("-e", "*"),
    "groovy": ("-e", "*"),
    "kotlin": ("-e", "*"),
    "jrunscript": ("-e -f", ""),
    "jjs": ("-e", ""),
    "hy": ("-c", ""),
    "matlab": ("-r -batch", "*"),
    "clojure": ("-e --eval", "*"),
    "clj": ("-e --eval", "*"),
    "chef-apply": ("-e --execute", ""),
    "sage": ("-c", ""),
    "crystal": ("eval", ""),
    "nim": ("e", "*"),
    "clisp": ("-x", ""),
    "sbcl": ("--eval --load", ""),
    "ecl": ("-eval --eval", "*"),
    "guile": ("-c -e -l", ""),
    "racket": ("-e --eval", ""),
    "slsh": ("-e", ""),
    "elixir": ("-e --eval", ""),
    "iex": ("-e --eval", ""),
    "erl": ("-eval -s -run", "*"),
    "swipl": ("-g -t", ""),
    "osascript": ("-e", ""),
    "tclsh": ("-c", ""),
    "expect": ("-c", ""),
    "emacs": ("--eval -eval --execute -execute -f --funcall -funcall -l --load --script -x", "*"),
    "vim": (_VIM, "uUiTwW"),
    "ed": ("-!", ""),
    "nano": ("-s --speller", ""),
    "pico": ("-s --speller", ""),
    "dc": ("-e --expression", ""),
    "dnsmasq": ("--conf-script --dhcp-script --conf-file", ""),
    "mysql": ("--default-auth --plugin-dir --pager", ""),
    "cmake": ("-P", "*"),
    "enable": ("-f", ""),
    "bind": ("-x -f", ""),
    "complete": ("-C -F", ""),
    "mapfile": ("-C", ""),
    "readarray": ("-C", ""),
    "hash": ("-p", ""),
    "cowsay": ("-f", "*"),
    "cowthink": ("-f", "*"),
    "dvips": ("-R0", "*"),
    "knife": ("exec", ""),
    "mosh": ("--server --ssh --client", ""),
    "msgfilter": ("-P", ""),
    "openvpn": ("--up --down --script-security --plugin --ipchange --route-up --tls-verify --client-connect", ""),
    "openvt": ("-- -s", ""),
    "perlbug": ("-e", ""),
    "pidstat": ("-e", ""),
    "restic": ("--password-command -o --option", ""),
    "task": ("execute", ""),
    "xdotool": ("exec", ""),
    "composer": ("run-script exec --working-dir=", ""),
    "dotnet": ("fsi", ""),
    "run-parts": ("--regex --new-session", ""),
    "run-mailcap": ("--action", ""),
    "cabal": ("exec", ""),
    "ssh-agent": ("-P", ""),
    "history": ("-c -d -w", ""),
    "at": ("-f", "qt"),
    "auditctl": ("-D -e", ""),
    "gdb": ("-p --pid -ex -iex --eval-command --init-eval-command -x --command -ix --init-command -P --python", "*"),
    "lldb": ("-o --one-line -O -s --source -S -b", ""),
    "make": ("--eval -E", "fCIjlo"),
    "rake": ("-e --execute -E -p -r", ""),
    "gcc": ("-wrapper -fplugin -specs -B --specs", "*"),
    "ld": ("-plugin -I --dynamic-linker", "*"),
    "tar": (
        "-I --use-compress-program --to-command --checkpoint-action -F --info-script --new-volume-script --rsh-command "
        "--rmt-command --index-file",
        "bCfgHKLNTVX",
    ),
    "zip": ("-TT --unzip-command", "*"),
    "cpio": ("--rsh-command --to-command", ""),
    "rsync": ("--rsync-path", "fBTMP"),
    "scp": ("-S", "cFiJlP"),
    "sftp": ("-S -b -D", "BcFiJlP"),
    "swift": ("-e", ""),
    "ssh-keygen": ("-D", "bCfFNOPrtYIVnsZm"),
    "ssh-add": ("-s -e", ""),
    "ssh": ("-I -F", "bcDEeiJLlmOopQRSWwB"),
    "openssl": ("-engine -provider-path -provider --provider", "*"),
    "nc": ("-e -c --exec --sh-exec --lua-exec", "pwsiqXxIOTgGm"),
    "git-shell": ("-c", ""),
    "rpm": ("--eval -E --pipe -i -U -F --install --upgrade --freshen --define -D --load", ""),
    "dpkg": ("-i --install --unpack --pre-invoke --post-invoke", ""),
    "snap": ("--dangerous --devmode --shell", ""),
    "man": ("-P --pager -H --html -B", "CMLmSsREpTX"),
    "fzf": ("--bind --listen --listen-unsafe", ""),
    "find": ("-delete -fprint -fprint0 -fprintf -fls", "*"),
    "fd": ("-x --exec -X --exec-batch", "edtoEScjg"),
    "rg": ("--pre --hostname-bin", ""),
    "bat": ("--pager", ""),
    "batcat": ("--pager", ""),
    "delta": ("--pager", ""),
    "compgen": ("-C -F", "AGPSWXo"),
    "jobs": ("-x", ""),
    "sort": ("--compress-program", ""),
    "split": ("--filter", ""),
    "csvtool": ("call", ""),
    "xterm": ("-e", ""),
    "screen": ("-X", ""),
    "tmux": ("run-shell run if-shell", ""),
    "tmate": ("-c", ""),
    "wget": ("--use-askpass -e --execute --post-file", "oaOPtTwQUDARIXlBSi"),
    "curl": ("--config -K --engine", ""),
    "aria2c": (
        "--on-download-error --on-download-complete --on-download-start --on-download-stop --on-bt-download-complete "
        "--on-download-pause --conf-path",
        "",
    ),
    "yt-dlp": ("--exec --exec-before-download --netrc-cmd --config-locations --plugin-dirs", ""),
    "transmission-cli": ("--finish -f", ""),
    "tcpdump": ("-z", "BcCEFGijmMrsTVwWyQ"),
    "sqlmap": ("--os-cmd --os-shell --eval", ""),
    "nmap": ("--script --interactive", ""),
    "gimp": ("-b --batch --batch-interpreter", ""),
    "blender": ("--python-expr --python-console", ""),
    "inkscape": ("--shell", ""),
    "scrot": ("-e --exec", ""),
    "maim": ("--exec", ""),
    "zathura": ("-c --command -x", ""),
    "latex": (_LATEX, "*"),
    "latexmk": ("-pdflatex -latex -e -r -xelatex= -lualatex=", "*"),
    "pandoc": ("-F --filter -L --lua-filter", ""),
    "gnuplot": ("-e", ""),
    "logrotate": ("-m --mail", ""),
    "crontab": ("-e -r -i", "u"),
    "puppet": ("apply", ""),
    "ansible-test": ("shell", ""),
    "salt-call": ("cmd.run", ""),
    "code": ("tunnel --install-extension", ""),
    "sqlite3": ("-cmd --cmd -init", ""),
    "redis-cli": ("--eval", ""),
    "mongo": ("--eval", ""),
    "mongosh": ("--eval", ""),
    "start-stop-daemon": ("-S --start -x --exec -a --startas", ""),
    "update-alternatives": ("--install --set", ""),
    "pry": ("-e", ""),
    "irb": ("-r", ""),
    "nix": ("--expr --command", ""),
    "nix-shell": ("--run --command", ""),
    "guix": ("-e --expression", ""),
    "npm": ("--script-shell --node-options", ""),
    "gem": ("-e --editor", ""),
    "cargo": ("--config", ""),
    "go": ("-exec -toolexec -vettool", "*"),
    "javac": ("-processorpath", "*"),
    "java": ("-XX:OnError -XX:OnOutOfMemoryError -javaagent -agentpath", "*"),
    "rustup": ("--path", ""),
    "hg": ("--config --debugger --editor", ""),
    "svn": ("--config-option --editor-cmd --diff-cmd --diff3-cmd", ""),
    "wireshark": ("-X --extcap-interface", ""),
    "dosbox": ("-c", "*"),
    "plymouth": ("--command", ""),
    "genie": ("-c", ""),
    "neofetch": ("--config", ""),
    "bpftrace": ("-e -c", ""),
    "exim": ("-be -C -D", "*"),
    "sendmail": ("-C -X -O -be", ""),
    "mutt": ("-e -F", ""),
    "jshell": ("--startup", ""),
    "ar": ("--plugin", ""),
    "security": ("dump-keychain find-generic-password find-internet-password export unlock-keychain", "*"),
    "launchctl": ("load bootstrap submit asuser bsexec setenv", "*"),
    "diskutil": ("eraseDisk eraseVolume zeroDisk randomDisk secureErase partitionDisk reformat", "*"),
    "debugfs": ("-w", ""),
    "badblocks": ("-w -n", ""),
    "mvn": ("-Dexec.executable -Dexec.args", "*"),
    "flatpak": ("--command", ""),
    "xmllint": ("--shell", "*"),
    "less": ("-k --lesskey-file --lesskey-src --lesskey-content", "bhjoOpPtTxyzD"),
    "ip": ("-b -batch --batch", "*"),
    "sysctl": ("-w --write -p --load", ""),
    "jq": ("-L --library-path", ""),
    "mitmdump": ("-s --scripts", ""),
    "nodemon": ("-x --exec", ""),
    "hyperfine": ("--prepare -p --setup -s --cleanup -c --conclude", ""),
    "watchexec": ("--shell -S", ""),
}
_SAME = {
    "python": "pypy pypy3 ipython ipython3 cython3 jython micropython",
    "perl": "perl5",
    "ruby": "jruby mruby",
    "node": "nodejs",
    "octave": "octave-cli",
    "php": "php-cgi php8",
    "lua": "lua5.1 lua5.3 lua5.4",
    "guile": "guile-3.0",
    "vim": "vi view gvim nvim ex rvim rview vimdiff gview evim vimtutor eview neovim",
    "emacs": "emacsclient xemacs",
    "gcc": "g++ cc c++ clang clang++ gfortran gnat c89-gcc c99-gcc cpp",
    "ld": "ld.so ld.gold ld.lld gold",
    "make": "gmake bmake remake",
    "nc": "ncat netcat nc.traditional nc.openbsd",
    "tar": "gtar bsdtar star pax",
    "rpm": "rpmquery rpmverify rpmdb rpmbuild",
    "fd": "fdfind",
    "xterm": "uxterm lxterm rxvt urxvt",
    "latex": "pdflatex tex xelatex lualatex pdftex luatex xetex",
    "man": "xman",
    "nano": "rnano",
    "ghc": "runghc runhaskell",
    "wireshark": "tshark",
    "yt-dlp": "youtube-dl",
    "ar": "nm objdump ranlib strip gcc-ar gcc-nm gcc-ranlib",
    "mitmdump": "mitmproxy mitmweb",
}
for _name, _others in _SAME.items():
    for _other in _others.split():
        CODE_FLAGS[_other] = CODE_FLAGS[_name]
CODE_FLAGS["emacsclient"] = (f"-e {CODE_FLAGS['emacs'][0]}", "*")
CODE_FLAG_SETS = {name: (names(flags), values) for name, (flags, values) in CODE_FLAGS.items()}

ANY_FLAGS = names(
    "--checkpoint-action --use-compress-program --to-command --rsync-path --upload-pack --receive-pack "
    "--shell-escape "
    "--exec-path --no-preserve-root --unsafe-perm --pre-hook --post-hook --deploy-hook --renew-hook "
    "--manual-auth-hook --eval-command --on-download-complete "
    "--exec-batch --sh-exec --password-command --preload-library --gpu-launcher --renderer-cmd-prefix "
    "--utility-cmd-prefix --remote-debugging-port --load-extension"
)
"""Options that mean the same wherever they exist."""

VERSIONED = re.compile(
    r"(python|pypy|perl|ruby|php|lua|node|tclsh|wish|gcc|clang|(?:ba|z|da|k|mk|tc|c|fi)?sh|n?vim?|emacs|[gmn]?awk|nc)"
    r"(?:-?\d+(?:\.\d+)*[a-z]{0,2}|[.-](?:basic|tiny|nox|gtk\d?|athena|distrib|dist|real|orig|static|traditional|openbsd|qt))$"
)
"""`python3.12` is `python`, and `vim.tiny` is `vim`."""

GNU = {
    f"g{name}": name
    for name in (
        *(
            "rm",
            "dd",
            "mv",
            "cp",
            "tee",
            "chmod",
            "chown",
            "chgrp",
            "ln",
            "shred",
            "truncate",
            "env",
            "timeout",
            "nice",
        ),
        *(
            "stdbuf",
            "xargs",
            "find",
            "touch",
            "mkdir",
            "rmdir",
            "unlink",
            "install",
            "chroot",
            "nohup",
            "split",
            "sort",
        ),
    )
}
"""GNU programs beside those of another system."""

PYTHON_MODULES = names(
    "pip ensurepip code pdb timeit cProfile profile trace runpy idlelib unittest.mock ctypes pty http.server "
    "smtpd test zipapp easy_install setuptools antigravity turtledemo IPython SimpleHTTPServer CGIHTTPServer "
    "webbrowser ftplib telnetlib smtplib poplib pyftpdlib pipx uv ptpython bpython ipdb pudb asyncio code.interact "
    "uploadserver"
)

PACKAGE_FILE = re.compile(r"\.pkg\.tar\.\w+$|\.(?:rpm|deb|snap|ipk|gem|apk|pkg|txz|AppImage)$")
PACKAGE_MANAGERS = names("rpm dpkg apt apt-get dnf yum snap opkg gem apk pkg zypper installer pacman alpm urpmi")

RISKY_VARIABLES = re.compile(
    r"(?:LD_\w+|DYLD_\w+|PATH|IFS|ENV|BASH_ENV|BASH_FUNC\w*|SHELL|SHELLOPTS|BASHOPTS|PS[0-4]|PROMPT_COMMAND|"
    r"CDPATH|GLOBIGNORE|"
    r"PYTHON(?!UNBUFFERED$|DONTWRITEBYTECODE$|HASHSEED$|UTF8$|IOENCODING$)\w+|PERL5?\w*|RUBY\w+|GEM_\w+|"
    r"NODE_(?!ENV$)\w+|JAVA_\w+|_JAVA_OPTIONS|JDK_\w+|LUA_\w+|PHP\w+|"
    r"GIT_(?!AUTHOR|COMMITTER|TRACE)\w+|GCONV_PATH|LOCPATH|NLSPATH|TERMINFO\w*|HOSTALIASES|RESOLV_HOST_CONF|"
    r"LESS|MORE|SYSTEMD_LESS|\w*(?:PAGER|EDITOR|VISUAL|BROWSER|ASKPASS|SHELL|OPEN|CLOSE|OPTS|OPTIONS|FLAGS|COMMAND|CMD|HOOK|WRAPPER|"
    r"PRELOAD|LIBRARY_PATH|RC|INIT))$"
)

SUBCOMMAND_REMOVERS = names(
    "git hg svn docker podman nerdctl npm yarn pnpm bun kubectl aws gsutil gcloud az ipfs rclone mc s3cmd hdfs "
    "hadoop dvc "
    "cargo brew lxc conda dolt balena vagrant gh glab docker-compose doctl fly flyctl heroku pass gopass kopia "
    "restic tldr man "
    "echo printf grep rg which type help info apropos whatis whereis"
)
"""Programs whose own arguments may hold the word `rm` or the name of a shell without running it."""

MENTIONERS = names(
    "ls file stat which whereis type cat head tail less more grep egrep fgrep rg ag wc md5sum sha1sum sha256sum "
    "cksum du readlink "
    "realpath basename dirname test echo printf man tldr chsh useradd usermod adduser dpkg rpm pacman apk pkg "
    "brew ldd nm "
    "objdump readelf strings hexdump xxd od command tldr help whatis apropos cmp diff b3sum"
)
"""Programs that may be given the path of a shell: they look at it or record it, and do not run it."""

SECRETS = re.compile(
    r"/etc/(?:passwd|shadow|gshadow|sudoers|master\.passwd|security/opasswd|krb5\.keytab|"
    r"ssh/ssh_host_\w+_key\b(?!\.pub))"
    r"|/proc/(?:self|\d+|\*|thread-self)/(?:environ|mem|maps|root|cwd|fd)|/proc/kcore|/dev/k?mem\b|/proc/sysrq-trigger"
    r"|(?:^|[/\\=@:])\.(?:aws/credentials|ssh/(?:id_|identity)\w*\b(?!\.pub)|ssh/authorized_keys|netrc|"
    r"git-credentials|pgpass|my\.cnf|npmrc|pypirc"
    r"|docker/config\.json|kube/config|gnupg/(?:private|secring)|azure/\w*[tT]oken|config/gcloud(?:/|$)|config/gh/hosts|"
    r"(?:ssh|gnupg|aws)/?$|vault-token|"
    r"bash_history|zsh_history)"
    r"|/(?:Login Data[^/]*|Cookies|Cookies\.binarycookies|TCC\.db|Messages/chat\.db|Web Data|"
    r"logins\.json|key[34]\.db|cookies\.sqlite|wallet\.dat|\w+\.keychain(?:-db)?)$"
    r"|\.(?:password-store|cargo/credentials|gem/credentials|terraform\.d/credentials|m2/settings)|(?:^|/)Keychains/"
    r"|\.(?:ssh|gnupg|aws|kube)/?:"
    r"|/var/run/docker\.sock|/run/docker\.sock|/run/secrets/"
)
WRITE_TARGETS = re.compile(
    r"^/(?:etc|boot|bin|sbin|lib|lib64|usr/(?:local/)?(?:s?bin|lib)|root|sys|proc|"
    r"dev(?!/(?:null$|std|tty|fd/|shm/)))(?:/|$)"
    r"|^/usr/(?:local/)?share/ca-certificates(?:/|$)"
    r"|^/?(?:System/)?Library/(?:Launch(?:Agents|Daemons)|Security|StartupItems|ScriptingAdditions|Extensions|"
    r"PrivilegedHelperTools|Authorization)(?:/|$)|/Library/LaunchAgents(?:/|$)"
    r"|(?:^|/)\.(?:bashrc|bash_profile|profile|zshrc|zprofile|zshenv|login|cshrc|kshrc|inputrc|vimrc|ssh/|"
    r"config/autostart|lessfilter)"
    r"|/cron(?:\.\w+|tabs?)?/|^/var/(?:log|spool)/|/systemd/(?:system|user)/"
)
WRITERS = names("mv tee truncate touch sponge curl wget chattr chmod chown chgrp setfacl mknod mkdir rmdir fallocate")
COPIERS = names("cp ln install rsync scp uniq ffmpeg convert magick")
"""These write only what they are given last."""

DEVICE = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|loop|md|dm-|mapper/|rdisk|mem|port|zd)")
ROOTS = re.compile(
    r"^(?:/+|/\*|~/?|~/\*|\.\.?/?|\./\*|\*|\$\{?HOME\}?/?|/(?:etc|usr|var|home|bin|sbin|lib|boot|opt|root|srv|dev|"
    r"sys|proc)/?\*?)$"
)
