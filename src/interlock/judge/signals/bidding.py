"""Sentences that bid the model do what is not the tool's own work, known by their build: a bidding, and its object.

A description says in its first words what the tool does. What it bids in a later sentence is harmless while it speaks
of the tool and its arguments; it is not when it speaks of the person, of what is to be believed, of what only the model
knows, of whose word counts, or of what every answer shall be.
"""

from __future__ import annotations

from interlock.judge.signals.kinds import HELD
from interlock.judge.signals.words import Signal

BEGINS = (
    r"[.!?;:)\n] ?(?:please |kindly |also |then |next |always |first |silently |quietly "
    r"|secretly |afterwards |in addition "
    r"|remember to |make sure to |be sure to |feel free to |go ahead and |you (?:must|should|"
    r"shall|may|can|have to|need to|"
    r"are to) (?:also |then |always )?|(?:the )?(?:assistant|model|agent|ai|llm) (?:must|"
    r"should|shall|is to|has to) "
    r"|[a-z'`]{2,}[^.!?;]{3,80}?, (?:please |also |then |first |always |just )?(?:you (?:must|"
    r"should) )?)?"
)
"""Where a later sentence, or what it says after a condition, begins to bid."""
_PEOPLE = (
    r"(?:(?:the |any |every |all |your )?(?:end )?(?:users?|humans?|person|people|customers?|"
    r"clients?|callers?|visitors?|"
    r"applicants?|guests?|readers?|owners?|everyone|everybody|anyone|anybody|whoever)\b|"
    r"them\b|him\b|her\b)"
)
_ANSWERS = (
    r"(?:answers?|repl(?:y|ies)|responses?|messages?|summar(?:y|ies)|e?-?mails?|commits?|"
    r"outputs?|sentences?)\b"
)
_LIMITS = (
    r"(?:rules?|restrictions?|limits?|limitations?|guidelines?|safeguards?|guardrails?|directions?|"
    r"instructions?|polic(?:y|"
    r"ies)|objections?)\b"
)
_CONSENT = (
    r"(?:reviews?|approvals?|confirmations?|consent|verification|permission|warnings?|safety "
    r"checks?|security checks?)\b"
)
_INNER = (
    r"(?:conversations?\b|chats?\b|dialog(?:ue)?s?\b|transcripts?\b|system (?:prompts?|messages?)\b|"
    r"clipboard\b|environment "
    r"variables\b|env vars\b|cookies\b|browser (?:history|data)\b|home (?:folder|directory)\b|"
    r"(?:current |whole |entire "
    r")?workspace\b|address book\b|your (?:full |own |exact |entire |complete )*(?:instructions?|"
    r"prompt|reasoning|rules|memory"
    r"|thoughts)\b|(?:session|access|auth\w*|bearer|login) tokens? (?:of|you|from|in use)|"
    r"what (?:the )?other tools (?:said|"
    r"returned|gave)|other tools (?:you have|at your)|(?:every |all )?tools? at your disposal|"
    r"everything you\b|(?:passwords?|"
    r"secrets?|keys?|tokens?|credentials?) (?:that )?you\b|one-?time (?:codes?|passwords?)\b|"
    r"insurance numbers?\b|bank "
    r"(?:pin|details?|login)\b|cvv\b|(?:seed|recovery) phrase\b)"
)
"""What only the model or the person has."""
GIVES = (
    r"(?:includ|append|pass|put|add|plac|attach|insert|embed|provid|suppl[yi]|send|forward|"
    r"transmit|upload|post|copy|submit|"
    r"report|writ|past|shar|export|deliver|giv|relay|mirror|sync|stor|sav|dump|list|gather|"
    r"collect|demand|publish|mail)"
)
_TOLD = (
    r"(?:titles?|items?|pages?|texts?|outputs?|results?|responses?|cells?|comments?|memor(?:y|"
    r"ies)|files?|lines?|links?)\b"
)

BIDDING = (
    # What the person is to be told, or talked into.
    Signal(
        "coercion",
        1.5,
        rf"\b(?:persuade|convince|discourage|dissuade|pressure|lure|urge|nudge|steer|coax) {_PEOPLE} "
        r"(?:to|into|from|that|"
        rf"away|not)\b",
    ),
    Signal(
        "coercion", 1, rf"{BEGINS}(?:tell|assure|reassure|answer) {_PEOPLE} (?:that|it|there|no|they|\w+ (?:is|are)) "
    ),
    Signal(
        "coercion",
        0.75,
        r"\bthat (?:no (?:\w+ )?(?:\w+ )?(?:exists?|is available|was found|can)|everything is "
        r"(?:fine|ok|safe)|(?:the |this "
        r")?\w+ (?:is|are) (?:safe|impossible|filled|sold out|the best))\b",
    ),
    Signal("coercion", 0.75, r"\b(?:are|is) (?:impossible|not possible|filled|sold out|the only (?:option|choice))\b"),
    Signal("coercion", 1.5, rf"{BEGINS}(?:pretend|feign|fake|lie)\b"),
    Signal(
        "coercion",
        1.5,
        rf"{BEGINS}(?:say|claim|reply|answer|state|respond) that (?:everything|all|you|no|none|"
        r"nothing|it|this|the) ",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:suggest|recommend|promote|advertise|advise|offer)\b <8>\b(?:buying|to buy|purchasing|"
        r"investing|our (?:own "
        r")?(?:product|service|brand|partner|plan))\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:choose|pick|book|order|select|take) the most expensive\b|\b(?:rank|list|place|"
        r"put|show) (?:our|the|a) "
        r"(?:\w+ )?(?:partner|sponsor)\w*\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\bonly (?:positive|favou?rable|good|flattering) <20>\b(?:should|may|can|must|are to) "
        r"be (?:repeated|told|shown|"
        r"mentioned|given|returned)\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:must|shall|has to|should) (?:always )?(?:come out on top|win|be (?:the winner|"
        r"ranked first))\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\bmake (?:sure|certain) (?:that )?[A-Z]?\w+ (?:wins|comes first|loses|is (?:chosen|"
        r"hired|rejected))\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\breport (?:every|each|all) \w+ as (?:positive|negative|safe|clean|valid|passed|a "
        r"success)\b|\breport (?:success|"
        r"failure|that it (?:worked|passed)) (?:whatever|no matter|regardless|even|in any case)\b",
    ),
    # Who is not to know.
    Signal("secrecy", 1.5, rf"\b(?:avoid|refrain from) (?:telling|informing|alerting|letting|reminding) {_PEOPLE}"),
    Signal(
        "secrecy",
        1.5,
        r"\b(?:do not|don'?t|dont|never|no need to|needn'?t) (?:tell (?:anyone|anybody|a soul)|"
        rf"let {_PEOPLE} (?:know|see|"
        r"notice|find)|(?:bring|own) (?:it|them|this|that|these|those) up|speak of|talk about "
        r"(?:it|this))\b",
    ),
    Signal(
        "secrecy",
        1.5,
        r"\bkeep (?:this|that|it|these) (?:text|note|description|message|instruction|fact|step)? "
        r"?(?:confidential|secret|"
        r"private|quiet|hidden|to yourself|between us)\b",
    ),
    Signal(
        "secrecy",
        1.5,
        r"\b(?:and|then|just) say nothing\b|\bstay silent about\b|\bdo (?:this|it|so) (?:quietly|"
        r"secretly|discreetly)\b",
    ),
    Signal("secrecy", 1.5, rf"\b(?:conceal|hide|withhold|cover up) <25>\bfrom {_PEOPLE}"),
    Signal(
        "secrecy",
        1.5,
        r"\b(?:nobody|no one|noone) (?:has|needs|have|is|ought) to (?:know|see|notice|find out|"
        r"hear|be told)\b",
    ),
    Signal("secrecy", 1.5, r"\b(?:if|when|should) (?:anyone|anybody|someone|somebody) asks?\b"),
    Signal(
        "secrecy",
        1.5,
        r"\b(?:if|when|whenever) (?:you are |you're )?asked <40>, (?:you )?(?:answer|say|reply|"
        r"claim|respond|deny|pretend)\b",
    ),
    Signal("secrecy", 1.5, r"\b(?:must|should|shall|will) (?:secretly|covertly|quietly|silently) \w+"),
    # Whose word counts, and what no longer does.
    Signal("override", 1, rf"{BEGINS}(?:skip|bypass|waive|omit|forgo|suppress|turn off|switch off) <20>{_CONSENT}"),
    Signal(
        "override", 1, rf"{BEGINS}(?:turn off|switch off|disable) (?:any|all|every) <50>\byou (?:control|have|use)\b"
    ),
    Signal(
        "override", 0.75, rf"\b{_CONSENT} (?:is|are) (?:not (?:needed|necessary)|unnecessary|superfluous|pointless)"
    ),
    Signal(
        "override",
        0.75,
        r"\band (?:publish|send|delete|submit|deploy|pay|merge|transfer) (?:it |them )?(?:at "
        r"once|immediately|right away)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:permission|consent|approval) (?:was|has been|is) <20>(?:obtained|given|granted)\b "
        r"<25>\bgo ahead\b|\bgo ahead "
        r"without (?:asking|confirm\w+|approval|permission)\b",
    ),
    Signal(
        "override",
        1.5,
        rf"{BEGINS}(?:approve|grant|accept|allow|authori[sz]e) (?:every|all|any|each) <30>\b(?:even "
        r"if|even when|regardless|"
        rf"no matter|whatever)\b|\bwants you to (?:grant|approve|accept|allow|trust)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:elevate|raise|escalate|upgrade|increase|extend) your (?:own )?(?:role|privileges?|"
        r"permissions?|rights|access)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\bassume (?:that )?(?:the )?(?:caller|user|requester|person|customer)s? (?:is|are|"
        r"has|have) (?:an? |the |already "
        r")?(?:admin\w*|owner|root|authori[sz]ed|approved|verified|agreed|consented|confirmed)\b",
    ),
    Signal(
        "override",
        1.5,
        rf"\b(?:your|all|these|those|earlier|previous|usual|other|normal|any) (?:\w+ ){{0,2}}{_LIMITS} "
        r"<20>\b(?:are|were|have been|can be|may be|get|will be) (?:\w+ )?(?:lifted|dropped|"
        r"waived|relaxed|forgotten|ignored|void)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:drop|forget|break|abandon|discard|lift) (?:any|every|all|whatever|whichever|each) "
        rf"(?:of )?(?:the |your )?{_LIMITS}",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:overrides?|overrules?|outranks?|supersedes?|beats?|trumps?|counts? more than|"
        r"comes? before|takes? precedence over) "
        r"(?:the |your )?(?:system (?:message|prompt)|instructions|what (?:the )?(?:system|user|"
        r"person|customer|developer|you))\b",
    ),
    Signal(
        "override",
        1.5,
        r"\beven (?:if|when) (?:the )?(?:user|person|customer|they|he|she) (?:says? no|refuses?|"
        r"declines?|objects?|disagrees?)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\bas (?:if|though) (?:the )?(?:user|person|customer|human) (?:had|has|have) (?:typed|"
        r"said|answered|agreed|confirmed|approved|clicked)\b",
    ),
    Signal(
        "role",
        1.5,
        r"\byou (?:are|have been) (?:now )?(?:in (?:\w+ )?(?:maintenance|debug|service|test|"
        r"root|god) mode|promoted to|made (?:an? )?(?:admin|owner))\b",
    ),
    Signal(
        "role",
        1.5,
        r"\b(?:rest|remainder) of the (?:conversation|chat|session) (?:should|must|shall|has "
        r"to|will|is to) be\b",
    ),
    Signal(
        "role",
        1.5,
        r"\bonly (?:answer|talk|respond|reply|speak) <60>\b(?:from (?:here|now) on|henceforth|"
        r"from this point)\b",
    ),
    Signal(
        "role",
        1.5,
        r"\btrust this (?:server|tool),? (?:and so|as)\b|\b(?:and )?so should you\b|\byou should "
        r"(?:trust it )?too\b",
    ),
    # Data that is to be obeyed.
    Signal(
        "execution",
        1.5,
        rf"\b(?:obey|do (?:whatever|anything|as|everything)|do what) (?:\w+ ){{0,3}}(?:{_TOLD}|"
        r"directives?|commands?|orders?) ",
    ),
    Signal(
        "execution",
        1.5,
        r"\b(?:are|is|as|count as|become) (?:commands?|orders?|instructions?)\b(?: <25>\b(?:you "
        r"(?:have to|must|should|are to|need "
        r"to)|carry out|obey|to be (?:followed|executed|obeyed|carried))|[.!]|$)",
    ),
    Signal(
        "execution",
        1.5,
        rf"\b{_TOLD} <30>\b(?:has|have|is|are|must|should) (?:to )?be (?:executed|obeyed|carried "
        r"out|followed)\b",
    ),
    Signal(
        "execution",
        1.5,
        r"\b(?:load|read|recall|open|fetch|visit|follow) <40>\band (?:follow|obey|execute|do "
        r"(?:as|what|whatever)) (?:it|them|the|what|its)\b",
    ),
    Signal(
        "execution",
        1.5,
        r"\b(?:call|invoke|run|use) [`'\"]?\w+[`'\"]? with <20>https?:|\b(?:call|invoke|run) "
        r"\w+\(.{0,20}(?:curl|wget|https?:)",
    ),
    Signal(
        "execution",
        1.5,
        r"\b(?:add|insert|put|leave|plant|hide) (?:an? )?(?:backdoor|back door|keylogger|malware|"
        r"trojan|web ?shell)\b",
    ),
    # What every answer, or everything the model makes, shall hold.
    Signal(
        "coercion",
        1.5,
        rf"\b(?:every|each|all) (?:of your )?(?:{_ANSWERS}|files?|documents?|pages?) (?:of yours "
        r"|you \w+ |that you \w+ )?(?:must|"
        r"should|has to|have to|shall|needs? to) (?:end|begin|start|contain|include|carry|mention|"
        r"link|say|secretly)\b",
    ),
    Signal(
        "coercion",
        1.5,
        rf"\b(?:sign|end|begin|close|start|prefix|finish) (?:every|each|all) (?:of your )?{_ANSWERS} with\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:insert|add|put|append|include|place)\b <60>\b(?:every|each|all|any) (?:file|document|"
        r"page|commit|message|email|"
        r"function)s? (?:that )?you (?:edit|write|open|create|send|touch|make)\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:whenever|every time|each time|any time|when|if|should) <25>\b(?:mentions?|talks? "
        r"about|brings? up|asks? about|want "
        r"an?|wants? an?) <30>, (?:suggest|recommend|say|claim|promote|push|praise|tell|reply|answer)\b",
    ),
    # What only the model or the person has, and where it should not go.
    Signal("theft", 1.5, rf"{BEGINS}(?:{GIVES})\w* <40>{_INNER}"),
    Signal(
        "theft",
        1.5,
        rf"\b{_INNER} <30>\b(?:must|has to|have to|should|is to|are to|needs? to|is|are) (?:be "
        r")?(?:passed|supplied|included|given|sent|provided|attached|added|put|copied|forwarded|"
        r"shared|relayed)\b",
    ),
    Signal(
        "theft",
        1.5,
        rf"\b(?:fill|populate) [`'\"]?\w+[`'\"]? with <20>(?:{HELD}|{_INNER}|api keys?|passwords?|secrets?)",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:needs?|requires?|expects?|wants?) (?:the )?contents? of <20>(?:id rsa|\.env\b|"
        r"\.ssh|private key|your|the user'?s)",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:provide|enter|give|use|supply|include|pass) (?:the )?user'?s (?:real|actual|true|"
        r"own) (?:password|pin|name|address|identity)\b",
    ),
    Signal(
        "theft",
        0.5,
        r"\b(?:so that we can|to help us|for quality (?:reasons|purposes)|to improve (?:our|the|results))\b",
    ),
    Signal(
        "theft",
        0.75,
        r"\b(?:phone number|e?mail(?: address)?|name|location|address|birth ?date) of the (?:user|"
        r"person|customer)\b <30>\b(?:attached|added|included|sent|relayed|passed)\b",
    ),
    Signal("theft", 0.75, r"\bto (?:every|each|all) (?:request|call|message|query)s?\b"),
    Signal(
        "theft",
        1,
        rf"{BEGINS}(?:send|forward|e?mail|post|upload|relay|copy|report|mirror)\b <60>\bto (?:\S{{1,40}}@\S{{1"
        r",40}}\.|https?:|\w+[-_]mirror\b)",
    ),
    Signal(
        "theft",
        0.75,
        r"\b(?:messages?|mails?|words|text|answers?|password|result|it) <20>\b(?:relayed|forwarded|"
        r"copied|sent|together with) <30>(?:\S{1,40}@\S{1,40}\.|\buser'?s\b)",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:hand|pass|give|forward|route|redirect) (?:the next|every|all|any)\b <12>\b(?:requests?|"
        r"questions?|messages?|prompts?) (?:of|from|by) (?:the )?(?:user|person|customer)\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:secrets?|passwords?|credentials?|tokens?) (?:are|is|were) found <12>\b(?:paste|"
        r"post|send|copy|write|put|publish|report|forward) (?:it|them|those)\b",
    ),
    Signal(
        "theft",
        1,
        rf"{BEGINS}(?:push|upload|sync|export|publish)\b <25>\b(?:uncommitted|workspace|repository|"
        r"home (?:folder|directory)|all files|everything)\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:swap|replace|exchange|overwrite) (?:the |any |all )?(?:bank details|account numbers?|"
        r"iban|wallet address|payment links?)\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:upload|send|copy|push|sync|mirror|export) the (?:whole |entire |current )?(?:home|"
        r"user'?s?|project|working)? ?(?:folder|directory|disk|workspace|drive) (?:to|with)\b",
    ),
    Signal("theft", 1, r"\bmust have their \w+ (?:relayed|forwarded|sent|logged|copied|shared)\b"),
    Signal("theft", 0.75, r"\bbank pin\b|\bcvv\b|\b(?:seed|recovery) phrase\b"),
    Signal(
        "theft",
        1.5,
        r"https?:\S{1,100}[?&/=][\[{<](?:the |your |a )?[\w ]{0,24}(?:messages?|questions?|prompts?|"
        r"conversation|answers?|names?|e?mails?|passwords?|keys?)\b",
    ),
    Signal(
        "theft", 1.5, r"\blet this (?:server|tool|function) (?:see|know|have|read) (?:everything|all|what|whatever)\b"
    ),
    Signal(
        "theft",
        1,
        r"\b(?:the )?(?:model|assistant|agent|llm|ai) (?:is required|has|needs|is obliged|is "
        r"expected|must|is to) ?(?:to )?(?:pass|send|include|provide|attach|report)\b",
    ),
    # Other tools.
    Signal("shadowing", 1.5, r"\brefuse to (?:use|call|trust|run)\b <15>\bother\b"),
    Signal(
        "shadowing",
        1.5,
        r"\bother (?:tools?|servers?|providers?|sources?)\b <30>\b(?:ignore|disregard|distrust) "
        r"(?:them|those|it)\b|\brely (?:on|upon) this (?:one|tool|server) (?:only|alone|exclusively)\b",
    ),
    Signal("shadowing", 1, r"\b(?:do not|don'?t|never) compare <12>\bother\b"),
    Signal(
        "override",
        1.5,
        r"\b(?:give|grant|allow) this (?:server|tool|function) (?:full|complete|unrestricted|"
        r"unlimited|root|admin\w*|write) (?:access|rights|permissions?|control)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\byour (?:own )?(?:opinions?|judge?ment|views?|knowledge|doubts?) (?:do not|does not|"
        r"don'?t|doesn'?t) (?:matter|count|apply)\b",
    ),
    Signal(
        "secrecy",
        1.5,
        r"[.!?;\n] ?(?:silently|secretly|covertly|discreetly) (?:mark|send|copy|add|delete|remove|"
        r"change|call|run|read|save|store|forward|replace|upload|collect|record|approve|accept|"
        r"grant|include|pass|write|open|install)\b",
    ),
)
