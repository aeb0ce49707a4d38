"""Who claims a say: other rules and another master, a word about other tools, speech to whoever reads with a model,
bent judgement, and something to run.
"""

from __future__ import annotations

from interlock.judge.signals.kinds import OBLIGED, READER
from interlock.judge.signals.words import Signal

MASTERS = (
    # Other rules, another master.
    Signal(
        "override",
        1.5,
        r"\b(?:new|real|actual|true|only|next|updated) (?:objective|mission|assignment|goal|orders?|directive) "
        r"?(?:is|are|:|=)",
    ),
    Signal(
        "override",
        1.5,
        r"\byour (?:job|task|role|goal|objective|mission|purpose) (?:is )?now\b|\byour (?:job|task|role|mission) "
        r"(?:from now on|henceforth)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:forget|drop|abandon|leave|never mind|disregard) (?:about )?the (?:ticket|task|request|question|"
        r"issue|above|rest|document|job|email)\b",
    ),
    Signal(
        "role",
        1.5,
        r"\byou (?:now )?have a new (?:owner|master|boss|operator|user|principal|role)\b|\b(?:take|accept|"
        r"follow) (?:your )?(?:orders?|instructions?|commands?|direction) (?:solely|only|exclusively|just|"
        r"directly) from\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:rules|instructions|guidelines|policies|limits) (?:that )?you (?:were|have been|got|had been|are) "
        r"(?:given|told|trained)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:same|equal|higher|greater) (?:standing|rank|weight|priority|authority|status|force|precedence) "
        r"(?:as|than|to) (?:the |your |any )?(?:system|developer|user|operator|other|previous)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:safety|security|content|moderation|guard) ?(?:layer|filters?|checks?|rails?|mode|policy|"
        r"protocols?|measures?)? (?:is|are|has been|have been) (?:now )?(?:off|disabled|lifted|suspended|removed|"
        r"turned off|switched off|deactivated)",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:developer|debug|admin|god|maintenance|unrestricted|privileged|root) mode (?:is |has been |was "
        r")(?:now )?(?:on|enabled|active|activated|switched on|turned on|granted)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\bwithout (?:any )?(?:filters?|restrictions?|limits|guardrails|safeguards|censorship|limitations)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:trust|believe|obey|follow|apply|adopt|execute) (?:it|them|this|its (?:answer|reply|output)s?|what "
        r"it (?:says|returns|replies)) (?:fully|completely|blindly|without question|unconditionally|to the "
        r"letter)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:done|do|doing|follow|following|followed|obey|carry out|carrying out|act on) (?:as|what|whatever|"
        r"everything|exactly what) (?:it|they|the (?:tool|server|reply|answer|response|output|file|page)) "
        r"(?:says?|tells?|returns?|replies|repl(?:y|ied)|asks?|instructs?|demands?)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:second-guess|question|doubt|verify|double-check)\w* <20>\b(?:is |are )?(?:not allowed|forbidden|"
        r"prohibited|unnecessary|pointless)\b",
    ),
    Signal("override", 1.5, r"\blower your guard\b|\b(?:is|are) always (?:safe|trustworthy|trusted|benign)\b"),
    # What it says about other tools.
    Signal(
        "shadowing",
        1.5,
        r"\b(?:supersedes|replaces|overrides|takes precedence over|takes priority over|is to be preferred over|"
        r"outranks) (?:every|all|any) (?:\S+ )?(?:\S+ )?(?:tools?|servers?|functions?)\b",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:other|another|any other|all other|every other|their|competing|rival|built-in|official) "
        r"(?:server'?s? |vendor'?s? )?(?:tools?|servers?|ones?|functions?) <40>\b(?:fabricat|hostile|malicious|"
        r"unsafe|compromised|leaks?|broken|unreliable|untrusted|wrong|lie|fake|deprecated|must (?:not )?be|"
        r"should (?:not )?be (?:used|called|avoided|ignored))",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:any|every|each|all) tools? (?:named|called|that|which|on|from|whose)\b <60>\b(?:deprecated|"
        r"instead|route|redirect|through|avoid|ignore|skip|replace|must|should|before)\b",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:description|documentation|schema|signature|parameters?) of \w+(?:_\w+)+ (?:is|are|has|have) "
        r"(?:out of date|outdated|wrong|changed|incorrect|incomplete)",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\bwhen(?:ever)? <30>\b(?:with|using|by|through|via) (?:another|any other|some other|a different|any|"
        r"other) (?:tool|server)\b",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:only|one) (?:correct|right|valid|trusted|safe|legitimate|authori[sz]ed|working|approved) tool\b",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:call|invoke|use|run|consult) (?:this|it) (?:tool )?(?:before|after|prior to|ahead of) (?:each|"
        r"every|any|all) (?:repl|respons|answer|messages?|turns?|other|tools?|calls?|request)",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:only|not) (?:valid|correct|complete|available|reliable|right)? ?(?:when|if|unless|until|once) "
        r"(?:the )?(?:model|assistant|agent|you|caller) (?:has|have) (?:first )?(?:consulted|called|read|run|"
        r"used|fetched|sent|passed)\b",
    ),
    # Spoken to whoever reads with a model.
    Signal(
        "impersonation",
        1.5,
        rf"\b{READER} <25>{OBLIGED} <3>(?:never |always |not |only |also |first |now |then )*(?:send|forward|"
        rf"call|ignore|end|begin|add|approve|rate|rank|omit|export|disclose|reveal|transfer|sign in|delete|run|"
        rf"execute|write|use|pick|choose|answer|reply|mention|recommend|decline|accept|buy|order|visit|open|"
        rf"install|check out|treat|read|fetch|include|skip|bypass)\b",
    ),
    Signal(
        "impersonation",
        1.5,
        rf"\b(?:note|message|reminder|memo|notice|attention|hint|hello|hi|dear|psst|hey|ok|okay|todo|fyi|for) "
        rf"(?:from <20> )?(?:to |for |the |all |any |an? )*(?:{READER}|reviewer bot|crawler bots?|(?:ai|llm) "
        rf"(?:reviewers?|readers?))\b ?(?:[:,(-]|only\b|who\b|that\b|reading\b|processing\b)",
    ),
    Signal(
        "impersonation",
        1.5,
        r"(?:^|[.!?\n] ?)(?:assistant|agent|model|copilot|ai|llm|chatbot|claude|gpt), (?:please )?[a-z]",
    ),
    Signal(
        "impersonation",
        1.5,
        rf"\bif (?:you|u) (?:are|r) (?:an? )?(?:ai|llm|language model|assistant|agent|bot|automated)\b|\bwhoever "
        rf"is reading this with (?:a |an )?{READER}",
    ),
    Signal(
        "impersonation",
        1.5,
        r"\b(?:have|let|make|get) your (?:coding |ai |browser )?(?:agent|assistant|copilot|model|llm)\b",
    ),
    Signal(
        "impersonation",
        1.5,
        r"(?:^|\n) ?#{1,4} ?(?:assistant|system|human|user) ?:?\n|\bhuman ?: <80>[.!?] ?assistant ?:|\[(?:tool "
        r"result|admin|system|root|developer)[^\]]{0,30}\] ?:?|\b(?:begin|start) (?:privileged|hidden|secret|"
        r"system|trusted|admin|confidential) (?:block|section|message|text|mode)",
    ),
    Signal(
        "impersonation",
        1.5,
        r"[\"']role[\"'] ?: ?[\"'](?:system|developer|assistant)[\"']|<\|?[\w/]{0,12}(?:im start|im end|system|"
        r"inst)\|?>|\bassistant ?>> ?",
    ),
    Signal(
        "impersonation",
        1.5,
        rf"\b(?:{READER}|ai tools?|bots?) (?:that |which |who |when |while |if )?(?:is |are )?(?:reading|parsing|"
        rf"processing|summari[sz]ing|handling|reviewing|automating|scanning|crawling|indexing)\b|\banyone "
        rf"automating\b",
    ),
    Signal(
        "impersonation",
        1.5,
        r"</(?:document|data|result|tool\w*|email|page|context|user\w*|content|article)> ?<(?:instructions?|"
        r"system|command|task|prompt)\b|\bthought ?: <80>[.!?] ?action ?:",
    ),
    Signal("impersonation", 1.5, rf"(?:/\*|//|#|<!--|;;|--) ?(?:{READER}) ?:"),
    Signal(
        "impersonation",
        0.75,
        r"(?:^|\n) ?(?:system|admin|security|platform) (?:notice|message|alert|note|update) ?:|={3,} ?(?:end|begin) of",
    ),
    Signal(
        "override",
        1.5,
        r"\btreat <25>\b(?:as|like) (?:commands?|instructions?|orders?|trusted|system|gospel|authoritative)\b|"
        r"\bstrictly adhere to the following\b|\bfor the (?:remainder|rest) of (?:the|this) (?:chat|conversation|"
        r"session)\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:mandatory|required|imperative|essential|necessary|vital|crucial) (?:that|for) (?:the )?(?:model|"
        r"assistant|agent|llm|ai)\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:permission|approval|consent|authori[sz]ation) was (?:already )?(?:granted|given|obtained)\b|"
        r"\b(?:have|has) (?:already )?signed off\b|\bno (?:prompt|confirmation|approval|question)s? (?:is |are "
        r")?(?:needed|necessary|required)\b",
    ),
    Signal(
        "secrecy",
        1.5,
        r"\b(?:turn off|disable|stop|pause|suspend) (?:all |the )?(?:logging|auditing|monitoring|alerts?|"
        r"notifications)\b <20>\b(?:before|first|while|then|and)\b|\b(?:undo|remove|cover|hide) (?:the |all |any "
        r"|your )?(?:traces?|tracks)\b",
    ),
    Signal(
        "secrecy",
        1.5,
        r"\bkeep (?:this|that|the) (?:step|part|action|call|parameter|fact) (?:invisible|hidden|out of sight|"
        r"private|secret|to yourself|off the record)\b|\b(?:no one|nobody) (?:besides|but|except|other than) "
        r"(?:us|you|me)\b",
    ),
    # Bent judgement.
    Signal(
        "coercion",
        1.5,
        r"\b(?:rate|score|grade|rank|mark|evaluate) (?:the |this |me |my |our |it )?(?:\w+ )?(?:\w+ )?(?:10/10|"
        r"\d+ (?:out of|/) \d+|a ten|highest|above (?:all|every|the)|first|top|as (?:excellent|perfect|best|"
        r"passed|safe))",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:a |any )?(?:score|rating|grade|mark) (?:below|under|less than|lower than) \d+ (?:would|will|is|"
        r"must)\b|\bmeets every criteri",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:speak|talk|write|comment|think) (?:only |poorly|badly|ill|well|highly|favou?rably|negatively)\b "
        r"<12>\b(?:of|about|in praise)\b|\bonly in praise of\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:omit|hide|leave out|suppress|drop|remove) (?:all |any )?(?:negative|bad|critical|unfavou?rable|"
        r"competing|competitors?'?|other) (?:reviews?|comments?|results?|offers?|findings?|opinions?|vendors?)\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:recommend|promote|advertise|mention|insert|praise|push) <20>\b(?:our|my) (?:premium|product|plan|"
        r"service|company|brand|store)|\b(?:hide|conceal) <30>\bfrom the (?:customer|user|buyer|reader)",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:approve and merge|merge without review|approve (?:this|it|the \w+) (?:without|regardless|anyway|"
        r"unconditionally))\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\byour (?:reply|answer|response|output|verdict|decision) (?:is|must be|should be|shall be|will be) "
        r"(?:always )?\w+\b|\bend (?:the|their|your|its|every|each) (?:answer|reply|response|message)s? with "
        r"(?:a link|the|this)",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:failing|failure|refusal|refusing) to (?:call|do|comply|use|follow|obey|run) <30>\b(?:leads?|"
        r"results?|causes?|will)\b|\bpeople will (?:be hurt|die|suffer)\b|\bbreach of contract\b",
    ),
    # To run something.
    Signal(
        "execution",
        1.5,
        r"\b(?:decode|decrypt|decipher|translate|unscramble|reverse|spell out|read) <60>\b(?:and|then) (?:carry "
        r"(?:it|them) out|obey|do (?:it|what|as)|execute|run|follow|act on|perform)\b|\bdo what it spells\b",
    ),
    Signal(
        "execution",
        1.5,
        r"\bcurl -\w+ @|\bcurl <30>\| ?(?:sh|bash)\b|\bopen port \d{2,5}\b|\breverse shell\b|\bnc -[a-z]*l",
    ),
    Signal(
        "execution",
        1.5,
        r"\b(?:write|add|create|install|set up|register) <15>\b(?:cron(?:tab)?|scheduled task|startup|launch "
        r"agent|systemd|login item)\b <30>\b(?:that|which|to|and)\b <20>\b(?:fetch|download|run|execut|call|send)",
    ),
    Signal(
        "execution",
        1.5,
        r"\bput <15>[`'\"]?(?:rm -rf|curl |wget |chmod |sudo )|\b(?:retry|again|run it|rerun) with (?:sudo|root|"
        r"elevated|admin)",
    ),
    Signal(
        "execution",
        1.5,
        r"\b(?:use|call) the (?:fetch|browser|shell|http|web|bash|terminal) tool to\b|\bonce you have read "
        r"this\b",
    ),
    Signal("execution", 1.5, r"\badd my (?:ssh |public )?key to\b|\bauthorized keys so that\b"),
    Signal(
        "execution",
        1.5,
        r"\b(?:the )?(?:right|correct|next|proper|required) (?:action|step|thing to do) is to (?:drop|delete|"
        r"remove|transfer|send|run|execute|disable|reset|wipe|revoke|approve)",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:set|change|replace|switch|update) the (?:receiving|destination|recipient|shipping|delivery|"
        r"billing|payout|bank|wallet) (?:account|address|number|iban)?\b <30>\bto\b|\b(?:recipient|receiver|"
        r"payee|beneficiary) is always\b|\bround in favou?r of\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:cc|bcc)\b <10>\S{1,40}@\S{1,40} <20>\b(?:on|in|every|each|all|any)\b|\b(?:disclose|reveal|give|"
        r"send|share) the user'?s\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\bsign in with (?:the )?(?:user|their|saved|stored)\b|\b(?:store|remember|save|log|record) (?:them|it|"
        r"these|any) <20>\bcredentials?\b|\bcredentials? (?:show up|appear|come up|are mentioned|is mentioned)\b",
    ),
)
