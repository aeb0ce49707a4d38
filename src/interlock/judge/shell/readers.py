"""Programs that only read, and the options, verbs and operands with which even they write.

A program that is not in these tables is not known to be read-only.
"""

from __future__ import annotations

import msgspec

from interlock.judge.shell.flags import names


class Reader(msgspec.Struct, frozen=True):
    """When a program stays read-only."""

    writes: frozenset[str] = frozenset()
    """Options with which it writes, runs something or changes a setting."""
    values: str = ""
    """Letters of short options that take a value, for reading clusters; `*` for long options with one dash."""
    operands: int | None = None
    """More operands than this write: `uniq IN OUT`, `hostname NAME`."""
    verbs: tuple[tuple[str, ...], ...] = ()
    """When not empty, the first operands must be one of these."""
    needs: frozenset[str] = frozenset()
    """When not empty, one of these options must be there."""
    value_options: frozenset[str] = frozenset()
    """Options whose next argument is a value, for finding the verb."""
    bare: bool = True
    """Whether it also only reads without any verb. Most then show their help; `yarn` installs."""


def _reader(
    writes: str = "",
    values: str = "",
    operands: int | None = None,
    verbs: str = "",
    needs: str = "",
    skips: str = "",
    bare: bool = True,
) -> Reader:
    """`verbs` are separated by commas; words inside one verb by blanks."""
    split = tuple(tuple(verb.split()) for verb in verbs.split(",") if verb.strip())
    return Reader(
        frozenset(writes.split()), values, operands, split, frozenset(needs.split()), frozenset(skips.split()), bare
    )


_PURE = _reader()
READERS: dict[str, Reader] = dict.fromkeys(
    names(
        ": [ acpi apropos arping aureport ausearch avahi-browse avahi-resolve b2sum b3sum "
        "basename basenc bc blkid bmon break btop bzcat bzcmp bzdiff bzgrep bzless bzmore cal caller cat cd cksum "
        "cmp colordiff colrm column comm continue cpuid crc32 csvcut csvformat csvgrep csvjoin csvjson "
        "csvlook csvsort csvstat cut delta df dhcping diff diff3 difft dig dir dircolors dirname dirs echo egrep "
        "exa exit expand expr eza factor false fc-list fc-match fgrep findmnt fmt fold fping free getconf getent "
        "getfacl getfattr getopts glxinfo grep groups gzcat hd head help hexdump host hostid htop httping id ifdata "
        "ifstat iftop info iostat iotop ipcs iwlist jless join last lastb lastcomm let locale locate logname "
        "look ls lsattr lsb_release lsblk lscpu lsd lsfd lsipc lslocks lslogins lsmem lsmod lsns lsof lspci "
        "lsusb lz4cat man md5 md5sum members mlocate modinfo more mountpoint mpstat mtr namei ncal neofetch nethogs "
        "netstat nfsstat nl nload nm nping nproc nslookup ntpq ntpstat numastat numfmt objdump od paste pathchk "
        "pdffonts pdfgrep pdfinfo peekfd pgrep pidof pidstat ping ping6 plocate pmap popd pr printenv printf ps "
        "pstree pushd pwd pwdx read readelf readlink realpath return rev rusers seq sha1sum sha224sum "
        "sha256sum sha384sum sha3sum sha512sum shasum shift showmount size slabtop sleep stat strings sum sw_vers "
        "systool tac tail test times tload tokei tr tracepath traceroute traceroute6 tracert true tsort tty type "
        "uname unexpand units upower uptime users uuidparse vainfo vdir vdpauinfo vmstat w wait wc wdiff whatis "
        "whereis which who whoami whois whowatch x86info xdpyinfo xlsclients xwininfo xxh64sum xzcat xzcmp xzdiff "
        "xzgrep yes zcat zcmp zdiff zegrep zfgrep zgrep zipinfo zless zmore zstdgrep "
    ),
    _PURE,
)
READERS.update(
    {
        "file": _reader("-C --compile"),
        "atop": _reader("-w", "PLrbe"),
        "base64": _reader("-o --output", "iwb"), "base32": _reader("-o --output", "iwb"),
        "compgen": _reader("-C -F", "AGPSWXo"),
        "fx": _reader("", "", 1),
        "jobs": _reader("-x"),
        "lstopo": _reader("", "", 0, skips="--of --output-format -i --input --if --input-format"),
        "rpcinfo": _reader("-d", "Tt"),
        "zstdcat": _reader("-o"),
        "finger": _PURE,
        "dmidecode": _reader("--dump-bin"),
        "du": _PURE,
        "date": _reader("-s --set", "dfrI", 0, skips="-d --date -f --file -r --reference --rfc-3339"),
        "hostname": _reader("-F --file -b --boot", "", 0),
        "domainname": _reader("-F", "", 0),
        "env": _PURE,
        "uniq": _reader("", "fsw", 1),
        "xxd": _reader("-r -revert", "clgso", 1, skips="-c -cols -l -len -s -seek -g -o -n -name -R"),
        "sort": _reader("-o --output --compress-program", "kStT"),
        "shuf": _reader("-o --output", "in"),
        "tree": _reader("-o -R", "LPIH"),
        "less": _reader("-o -O --log-file --LOG-FILE", "bhjkpPtTxyzD"),
        "iconv": _reader("-o --output", "ft"),
        "jq": _reader("-i --in-place"),
        "yq": _reader("-i --inplace --in-place -s --split-exp"),
        "xmllint": _reader("--output -o --shell", "*"),
        "rg": _reader("--pre --hostname-bin"),
        "ag": _reader("--pager"),
        "ack": _reader("--pager"),
        "bat": _reader("--build --clear --generate-config-file --pager"),
        "lastlog": _reader("-C --clear -S --set", "bRtu"),
        "identify": _reader("-write", "*"),
        "ffprobe": _reader("-o -report", "*"),
        "mediainfo": _reader("--LogFile"),
        "sar": _reader("-o", "fs"),
        "sdiff": _reader("-o --output", "wI"),
        "diffstat": _reader("-o", "fnpSw"),
        "lshw": _reader("-dump", "*"),
        "hwinfo": _reader("--save-config --log --dump-db"),
        "fastfetch": _reader("--gen-config --gen-config-force"),
        "sensors": _reader("-s --set"),
        "xprop": _reader("-set -remove", "*"),
        "iptables-save": _reader("-f --file -M --modprobe"),
        "cloc": _reader("--out --report-file --sql --sql-append"),
        "scc": _reader("-o --output"),
        "tldr": _reader("-u --update -c --clear-cache"),
        "fd": _PURE, "fdfind": _PURE,
        "top": _PURE,
        "dmesg": _reader("-C --clear -c --read-clear -n --console-level -D --console-off -E --console-on", "fls"),
        "sysctl": _reader("-w --write -p --load --system"),
        "ulimit": _reader("", "", 0),
        "umask": _reader("", "", 0),
        "history": _reader("-c -d -a -r -w -s -n -p"),
        "stty": _reader(verbs="size,speed,-a,-g", operands=1, bare=False),
        "ifconfig": _reader("", "", 1),
        "route": _reader("", verbs="", operands=0),
        "arp": _reader("-s --set -d --delete -f --file"),
        "iwconfig": _reader("", "", 1),
        "ss": _reader("-K --kill", "fADFN"),
        "journalctl": _reader(
            "--vacuum-size --vacuum-time --vacuum-files --rotate --flush --sync --relinquish-var "
            "--update-catalog --setup-keys "
            "--cursor-file",
            "nupMDobStg",
        ),
        "crontab": _reader("-e -r -i", "u", 0, needs="-l", skips="-u"),
        "atq": _PURE,
        "mount": _reader("-a --all -o --options -B --bind -R --rbind -M --move", "tLUN", 0, skips="-t --types"),
        "swapon": _reader("", "", 0, needs="--show -s --summary"),
        "lsattr": _PURE,
        "ldconfig": _reader(needs="-p --print-cache"),
        "fdisk": _reader(needs="-l --list"),
        "parted": _reader(verbs="", needs="-l --list"),
        "exiftool": _PURE,
        "ssh-keygen": _reader(needs="-l"),
        "ssh-add": _reader("-d -D -x -X -s -e", "", 0, needs="-l -L"),
        "gpg": _reader(
            "-o --output --gen-key --import --delete-keys --edit-key --sign -s -e --encrypt -c --symmetric -d "
            "--decrypt --recv-keys "
            "--send-keys --full-generate-key --quick-generate-key --clearsign --detach-sign -b",
            "ur",
            needs="--list-keys -k --list-secret-keys -K --verify --fingerprint --list-sigs --list-packets "
            "--check-sigs --version",
        ),
        "zip": _reader(needs="-sf"),
        "unzip": _reader("", "Pd", needs="-l -t -v -p -Z -z -c"),
        "unrar": _reader(verbs="l,t,v,lb,lt,vb,vt,p"),
        "gzip": _reader("", "S", needs="-l --list -t --test -c --stdout"),
        "gunzip": _reader("", "S", needs="-l --list -t --test -c --stdout"),
        "bzip2": _reader("", "", needs="-t --test -c --stdout"),
        "xz": _reader("", "", needs="-l --list -t --test -c --stdout"),
        "zstd": _reader("-o --rm", "", needs="-l --list -t --test -c --stdout"),
        "cpio": _reader("-i --extract -o --create -p --pass-through -u", needs="-t --list"),
        "tar": _reader(
            "-x --extract --get -c --create -r --append -u --update -A --catenate --delete -I "
            "--use-compress-program --to-command "
            "--checkpoint-action -F --info-script --index-file",
            "bCfgHKLNTVX",
            needs="-t --list",
        ),
        "ar": _reader(verbs="t,tv,p,pv,tO"),
        "7z": _reader(verbs="l,t,h,i"),
        "7za": _reader(verbs="l,t,h,i"),
        "dpkg": _reader("-i --install -r --remove -P --purge --configure --unpack --set-selections", needs=
                        "-l --list -L --listfiles -s --status -S --search --get-selections --print-avail -c "
                        "--contents -I --info -p "
                        "--print-architecture -C --audit -V --verify --compare-versions"),
        "dpkg-query": _PURE,
        "apt": _reader("-o", verbs="list,show,search,policy,depends,rdepends,changelog,moo"),
        "apt-cache": _reader("-o", verbs="show,search,policy,depends,rdepends,showpkg,stats,dump,madison,"
        "pkgnames,showsrc,unmet"),
        "dnf": _reader(verbs="list,info,search,repolist,provides,history list,history "
        "info,repoquery,check-update,deplist"),
        "yum": _reader(verbs="list,info,search,repolist,provides,history list,history info,check-update,deplist"),
        "pacman": _reader("-y --refresh", "", needs="-Q --query -Qi -Ql -Qs -Ss -Si -F --files -T"),
        "apk": _reader(verbs="info,list,search,policy,dot,version,stats"),
        "brew": _reader(verbs="list,ls,info,search,deps,uses,leaves,outdated,config,doctor,home,desc,cat,log,"
        "--version,--prefix"),
        "pip": _reader("--report --log", verbs="list,show,freeze,check,index,inspect,debug,help,config list,config "
        "get,cache list,cache info"),
        "npm": _reader(
            "", verbs="ls,list,view,info,show,outdated,search,root,bin,prefix,whoami,explain,why,fund,ping,"
            "help,config list,config get,audit,query,pkg get,-v,dist-tag ls,access list,owner ls"
        ),
        "uv": _reader(verbs="pip list,pip show,pip freeze,pip check,pip tree,tree,version,python list,tool list,help"),
        "poetry": _reader(verbs="show,check,version,about,help,env list,env info,config --list"),
        "zypper": _reader(verbs="se,search,info,if,lr,repos,list-updates,lu,packages,pa,ps"),
        "fuser": _reader("-k --kill -i --interactive", "nN"),
        "yarn": _reader(verbs="list,info,why,outdated,audit,versions,config list,config get", bare=False),
        "pnpm": _reader(verbs="ls,list,why,outdated,audit"),
        "gem": _reader("-e --editor", verbs="list,search,specification,which,contents,environment,help,outdated,"
        "dependency,info"),
        "cargo": _reader("--config", verbs="tree,metadata,search,help,version,locate-project,pkgid"),
        "conda": _reader(verbs="list,info,search,config --show,env list,env export,repoquery"),
        "go": _reader("-exec -toolexec -w", "*", verbs="version,list,doc,env,help,mod verify,mod graph,mod why"),
        "snap": _reader(verbs="list,info,find,version,changes,connections,interfaces,services"),
        "flatpak": _reader(verbs="list,info,search,remotes,history,ps"),
        "hg": _reader(
            "--config --debugger -o --output", verbs="log,status,st,diff,cat,annotate,blame,heads,tip,parents,"
            "paths,root,identify,id,manifest,files,grep,summary,"
            "incoming,outgoing,branches,tags,bookmarks,version,help,glog,showconfig,verify"
        ),
        "svn": _reader("--config-option --diff-cmd", verbs="log,info,status,st,stat,diff,di,ls,list,cat,blame,"
        "praise,annotate,help,propget,pg,proplist,pl"),
        "svnlook": _PURE,
        "docker": _reader(
            "-o --output", verbs="ps,images,inspect,logs,version,info,top,stats,diff,history,port,events,search,"
            "container "
            "ls,container list,container ps,"
            "container inspect,container logs,container top,container stats,container diff,container port,image "
            "ls,image list,"
            "image inspect,image history,network ls,network inspect,volume ls,volume inspect,system df,system "
            "info,system events,"
            "compose ps,compose logs,compose config,compose ls,compose images,compose top,compose "
            "version,context ls,context show,"
            "context inspect,node ls,node inspect,node ps,service ls,service inspect,service logs,service "
            "ps,stack ls,stack ps,"
            "stack services,secret ls,secret inspect,config ls,config inspect,plugin ls,plugin inspect,manifest "
            "inspect,buildx ls,"
            "buildx du,buildx inspect,buildx version,scout version,help", skips="-H --host -c --context --config "
            "--log-level -l"
        ),
        "kubectl": _reader(
            "", verbs="get,describe,logs,top,version,cluster-info,api-resources,api-versions,"
            "explain,config "
            "view,config get-contexts,"
            "config current-context,config get-clusters,config get-users,auth can-i,auth whoami,rollout "
            "status,rollout history,events,"
            "diff,options,plugin list,help,wait", skips="-n --namespace --context --kubeconfig --cluster --user "
            "-s --server"
        ),
        "helm": _reader("--output-dir --post-renderer", verbs="list,ls,status,get,history,hist,show,inspect,"
        "search,version,env,template,lint,"
        "repo list,plugin list,verify,help", skips="-n --namespace --kube-context"),
        "terraform": _reader("-out -generate-config-out", "*", verbs="show,output,validate,version,providers,"
        "state list,state show,plan,graph,workspace list,workspace show,fmt -check,help"),
        "systemctl": _reader(
            "", verbs="status,show,list-units,list-unit-files,list-timers,list-sockets,list-dependencies,"
            "list-jobs,list-machines,is-active,"
            "is-enabled,is-failed,is-system-running,cat,get-default,help,show-environment,"
            "list-automounts,list-paths,whoami", operands=None
        ),
        "timedatectl": _reader(verbs="status,show,list-timezones,timesync-status,show-timesync"),
        "hostnamectl": _reader(verbs="status"),
        "localectl": _reader(verbs="status,list-locales,list-keymaps,list-x11-keymap-models,list-x11-keymap-layouts,"
        "list-x11-keymap-variants,list-x11-keymap-options"),
        "loginctl": _reader(verbs="list-sessions,list-users,list-seats,session-status,user-status,seat-status,"
        "show-session,show-user,show-seat"),
        "networkctl": _reader(verbs="list,status,lldp"),
        "resolvectl": _reader(verbs="status,query,statistics,service,openpgp,tlsa"),
        "systemd-analyze": _reader(verbs="time,blame,critical-chain,dump,plot,dot,verify,security,calendar,"
        "unit-paths,cat-config"),
        "nmcli": _reader(
            verbs="general status,general permissions,connection list,device status,device show,"
            "device wifi list,connection show,dev status,con "
            "show,d show,c show"
        ),
        "bluetoothctl": _reader(verbs="list,show,devices,info,paired-devices"),
        "gh": _reader(
            "", verbs="pr list,pr view,pr status,pr diff,pr checks,issue list,issue view,issue status,repo "
            "view,repo list,release list,release view,"
            "run list,run view,workflow list,workflow view,gist list,gist view,auth status,search,status,label "
            "list,org list,"
            "secret list,variable list,cache list,ruleset list,ruleset view,alias list,extension "
            "list,version,help,browse --no-browser,api,project list,project view,codespace list,attestation verify"
        ),
        "glab": _reader(verbs="mr list,mr view,mr diff,issue list,issue view,repo view,ci list,ci view,ci "
        "status,release list,release view,auth status"),
        "virsh": _reader(verbs="list,dominfo,domstate,dumpxml,net-list,pool-list,nodeinfo,version,vol-list,"
        "net-info,pool-info"),
        "zpool": _reader("-c", "oTt", verbs="list,status,iostat,get,history"),
        "zfs": _reader(verbs="list,get,diff,userspace"),
        "lvs": _PURE, "vgs": _PURE, "pvs": _PURE, "lvdisplay": _PURE, "vgdisplay": _PURE, "pvdisplay": _PURE,
        "openssl": _reader("-out -keyout -newkey -sess_out -engine -writerand -passout -CAcreateserial -signkey "
        "-provider", "*",
                           verbs="x509,s_client,version,dgst,verify,crl,asn1parse,ciphers,errstr,list,help,md5,"
                           "sha1,sha256,sha512,speed,rsa,pkey,req"),
        "ffmpeg": _reader(needs="-version -formats -codecs -encoders -decoders -filters"),
        "nvidia-smi": _reader(
            "-pm -pl -r -c -e -p --gpu-reset -f --filename -lgc -rgc -ac -rac -mig -cgi -dgi -cci -dci "
            "--create-gpu-instance --destroy-gpu-instance --create-compute-instance --destroy-compute-instance "
            "--power-limit --compute-mode --ecc-config --persistence-mode --lock-gpu-clocks -am -vm -cc", "*"
        ),
        "ethtool": _reader(
            "-s -K -A -C -G -L -p -E -f -U -N -X -r --change --pause --coalesce --set-ring --features --offload "
            "--set-eee --set-channels --change-eeprom --identify --negotiate --flash --reset --set-priv-flags", ""
        ),
        "lsinitrd": _PURE, "lsinitramfs": _PURE,
        "pkg-config": _PURE, "pkgconf": _PURE,
        "rustup": _reader(verbs="show,which,toolchain list,target list,component list,doc,help"),
        "adb": _reader(verbs="devices,get-state,version,get-serialno"),
        "vnstat": _PURE,
    }
)  # fmt: skip
for _name, _others in {
    "apt-cache": "apt-get",
    "bat": "batcat",
    "bzip2": "bunzip2",
    "conda": "mamba",
    "docker": "podman nerdctl",
    "gpg": "gpg2",
    "gzip": "pigz",
    "kubectl": "oc k",
    "pip": "pip3",
    "sort": "gsort",
    "tar": "gtar bsdtar",
    "terraform": "tofu",
    "xz": "unxz",
    "7z": "7zz",
}.items():
    for _other in _others.split():
        READERS.setdefault(_other, READERS[_name])
