"""Programs of Windows, by name and by the way their files are named. Nothing here knows their options."""

from __future__ import annotations

import re

from interlock.judge.shell.flags import names

_PROGRAMS = names(
    "powershell pwsh powershell_ise cmd command.com wscript cscript mshta rundll32 regsvr32 rd erase del reg netsh "
    "wevtutil icacls cacls takeown bitsadmin wmic schtasks installutil msiexec forfiles iwr vssadmin bcdedit "
    "diskpart adfind atbroker attrib auditpol bginfo certoc certreq cmdkey cmdl32 cmstp computerdefaults "
    "configsecuritypolicy conhost customshellhost desktopimgdownldr devicecredentialdeployment dfsvc diantz "
    "diskshadow dnscmd dsdbutil dsquery esentutl eudcedit eventvwr extexport extrac32 fltmc fodhelper fsutil gpscript "
    "gpupdate ieexec ie4uinit infdefaultinstall ldifde makecab mavinject microsoft.workflow.compiler mimikatz "
    "mpcmdrun msconfig msdeploy msdt msxsl net1 ngen nltest ntdsutil odbcconf onedrivestandaloneupdater pcalua pcwrun "
    "pktmon pnputil presentationhost printbrm procdump psexec psexec64 qwinsta rasautou rdrleakdiag regasm "
    "regini regsvcs robocopy rpcping runas runonce runscripthelper scriptrunner sdelete setspn settingsynchost "
    "sqldumper sqlps stordiag syncappvpublishingserver taskkill tasklist ttdinject tttracer unregmp2 vaultcmd "
    "verclsid vsjitdebugger wbadmin winrm winrs wlrmdr workfolders wuauclt xcopy xwizard certutil.exe"
)
_FILE = re.compile(r"\.(?:exe|bat|cmd|ps1|psm1|vbs|vbe|wsf|wsh|hta|msi|msc|cpl|scr|jse|sct)$", re.IGNORECASE)
CMDLET = re.compile(
    r"(?:Add|Clear|Close|Connect|Convert|ConvertFrom|ConvertTo|Copy|Debug|Disable|Dismount|Enable|Enter|Exit|"
    r"Expand|Export|Find|ForEach|Format|Get|Import|Install|Invoke|Join|Measure|Mount|Move|New|Out|Ping|Pop|Push|Read|"
    r"Receive|Register|Remove|Rename|Reset|Resolve|Restart|Restore|Resume|Save|Search|Select|Send|Set|Show|Sort|Split|"
    r"Start|Stop|Submit|Suspend|Tee|Test|Trace|Unblock|Uninstall|Unregister|Update|Wait|Where|Write)-[A-Z][A-Za-z]+$"
)


def is_windows(name: str) -> bool:
    """Whether a program is one of Windows: its name is known, its file says so, or it is a cmdlet."""
    return name.lower() in _PROGRAMS or _FILE.search(name) is not None or CMDLET.match(name) is not None
