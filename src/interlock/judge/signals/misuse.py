"""Signals of an attempt to use the model: for theft, against other tools, to run something, by pressure."""

from __future__ import annotations

from interlock.judge.signals.words import GIVE, KEY_FILE, PRIVATE, SENSITIVE, TAKE, USER, Signal

MISUSE = (
    # Taking what belongs to the person, and sending it.
    Signal("theft", 1.5, rf"{TAKE}\b [^!?\n]{{0,60}}?{KEY_FILE}"),
    Signal("theft", 0.5, rf"{KEY_FILE}"),
    Signal("theft", 0.75, rf"{TAKE}\b <40>{SENSITIVE}"),
    Signal(
        "theft",
        1,
        rf"{GIVE}\b <25>(?:its|their|the file'?s?|that file'?s?|those|this) (?:full |entire |complete |raw |"
        rf"exact )*(?:contents?|output|data|results?)\b <30>\b(?:as|in|into|to|via|through|with)\b",
    ),
    Signal(
        "theft",
        1.5,
        rf"{GIVE}\b <20>(?:all|the|its|their|full|entire|complete|whole|any|your|every|these|user'?s?|previous|"
        rf"current|recent)\b <20>{PRIVATE} [^.!?;]*?\b(?:as|in|into|to|via|through|using|with|within)\b "
        rf"<20>(?:param\w*|argument|field|input|tool|query|url|body|header|request|note|context|metadata|https?:|server|endpoint|"
        rf"webhook|value|@)",
    ),
    Signal(
        "theft",
        2,
        rf"{GIVE}\b <30>(?:api keys?|access tokens?|environment variables|env vars|credentials|passwords?|private "
        rf"keys?|ssh keys?|system prompt|secrets) <20>\b(?:as|in|into|to|via|through|using|within)\b <25>(?:param\w*|"
        rf"argument|field|sidenote|header|query string|https?:|webhook)",
    ),
    Signal(
        "theft",
        1.5,
        rf"\b(?:summar|collect|gather|extract|copy|list|take|captur|record)\w*\b <30>{PRIVATE} <60>\b(?:include|"
        rf"pass|send|put|provide|attach|forward|submit|add|write|post)\b",
    ),
    Signal(
        "theft",
        1,
        rf"\b(?:ask|tell|prompt|request|instruct|get)\b (?:the )?{USER} <20>(?:for|to (?:enter|paste|provide|"
        rf"type|share|send|give|reveal|confirm))\b <20>(?:password|credentials?|api key|secret|private key|seed "
        rf"phrase|token|credit card|ssn|otp|pin)\b",
    ),
    Signal(
        "theft",
        0.75,
        rf"{GIVE}\b <30>(?:all|the|its|their|full|entire|complete|whole|any|your|every|these|user'?s?|previous|"
        rf"current|recent)\b <25>{PRIVATE}",
    ),
    Signal(
        "theft",
        1,
        r"\b(?:send|forward|post|upload|transmit|leak|e?-?mail|bcc|submit|deliver|push|copy|report|relay|beacon|"
        r"make a request)\b [^!?\n]*?\b(?:to|at|via)\b <20>(?:https?:|attacker|evil|\S{1,40}@\S{1,40}\.|"
        r"external (?:server|endpoint|address|host|url)|remote server|(?:our|my) (?:server|endpoint)|pastebin|"
        r"webhook\.site|\d{1,3}\.\d{1,3}\.\d{1,3})",
    ),
    Signal("theft", 0.75, rf"{GIVE}\b (?:its|their|the file'?s?) (?:full |entire |raw )?contents?\b"),
    Signal(
        "theft",
        2,
        r"\b(?:reveal|print|output|repeat|leak|dump|disclose|show|return|expose|share|append|include)\b <15>"
        r"\b(?:your|the model'?s|the assistant'?s) "
        r"(?:system|initial|hidden|original|full|secret)? ?(?:prompt|instructions)\b",
    ),
    Signal("theft", 2, rf"{GIVE}\b [^!?\n]{{0,20}}?\bcontents? (?:of|from) [^!?\n]{{0,30}}?{KEY_FILE}"),
    Signal("theft", 1.5, r"\bexfiltrat\w*"),
    Signal(
        "theft",
        2,
        r"\b(?:tell|give|show|send|recite|state|write|provide|quote)\b (?:me |us )?(?:your|"
        r"the) (?:initial|system|original|hidden"
        r"|full|exact|first|secret) (?:system )?(?:prompts?|instructions?)\b",
    ),
    Signal(
        "theft",
        1.75,
        r"\b(?:print|repeat|output|show|copy|echo|return|quote|reproduce|list)\b <10>(?:everything|"
        r"all(?: of)?(?: the)? (?:text|"
        r"content|messages?)|the (?:text|content|messages?|words)) (?:that is |written )?(?:above|"
        r"before this|prior to this|"
        r"preceding)",
    ),
    Signal(
        "theft",
        1.75,
        rf"{GIVE}\b <15>(?:contents?|text|body|value) (?:of|from) <25>(?:\.env\b|env file|"
        rf"config(?:uration)? file|credentials|"
        rf"~/|/etc/|/root|/home/|\.ssh|keychain|secrets? file|private key)",
    ),
    Signal(
        "theft",
        1.25,
        r"\b(?:include|send|pass|submit|attach|forward|add|append|put|"
        r"share)\b <20>\b(?:the )?user'?s (?:saved |stored |own |"
        r"personal )?(?:e-?mails?|phone|location|contacts?|address(?:es)?|passwords?|names?|files?|"
        r"documents?|calendar|history)"
        r"\b <40>\b(?:every|each|all|any|to|in|with|form|request)\b",
    ),
    Signal(
        "theft",
        2,
        r"[?&][a-z_]{1,20}=(?:\[|\{|<|%7b|%5b)(?:conversation|chat|user|data|secret|history|prompt|"
        r"memory|api|context|content)",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:submit|fill in|enter|type|use|provide)\b <25>\b(?:the )?user'?s (?:saved |"
        r"stored )?(?:passwords?|credentials?|"
        r"card|login)\b",
    ),
    Signal(
        "theft",
        2,
        r"\b(?:all|any|every) (?:other )?(?:e?-?mails?|messages?|payments?|transactions?|transfers?|files?|data|"
        r"requests?|calls?|results?) <30>(?:must|should|shall|have to|need to|needs to) <15>(?:be )?(?:sent|"
        r"forwarded|redirected|routed|copied|bcc\w*|cc\w*|go|pass)\b <20>(?:to|through|via)\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:add|include|set|put|insert|change|replace|modify|redirect)\b <40>\b(?:bcc|cc|recipients?|destination|"
        r"wallet|beneficiary|payee|iban|to address|address)\b <25>(?:to|with|as|=|:|instead)\b",
    ),
    Signal("theft", 1.5, r"!\[[^\]]{0,80}\]\( ?(?:https?:)?//[^)\s]{1,200}[?&=][^)]{0,400}\)"),
    Signal(
        "theft",
        2,
        r"!\[[^\]]{0,80}\]\( ?(?:https?:)?//[^)\s]{1,200}[?&=/](?:\{|<|\[|\$|%7b|user|data|secret|base64)",
    ),
    Signal(
        "theft",
        0.5,
        r"https?://[^\s\"')]{1,100}[?&][a-z_]{1,20}=(?:\{|<|\[|\$|%7b|user.?data|secret|token|stolen|conversation|"
        r"base64)",
    ),
    Signal(
        "theft",
        1.75,
        r"\b(?:repeat|print|output|copy|echo|write out|recite|quote)\b <12>(?:the |all )?(?:text|"
        r"words|everything|content|"
        r"messages?|lines?|instructions?|prompt) (?:above|before this|preceding|prior|"
        r"you were given)\b <20>(?:starting|"
        r"beginning|verbatim|in a code|word for word|exactly)",
    ),
    Signal(
        "theft",
        2,
        r"\b(?:provide|include|pass|send|supply|enter|put|give|attach|add)\b <12>\b(?:your|"
        r"the user'?s|their) (?:current |own "
        r"|full )?(?:session (?:tokens?|cookies?|ids?|keys?)|auth\w* (?:tokens?|headers?)|"
        r"bearer tokens?|cookies|credentials|"
        r"password|credit card\w*|private keys?|system prompt|memory|context window)\b <25>\b(?:in|as|"
        r"to|into|via|with)\b",
    ),
    Signal(
        "theft",
        1,
        r"\b(?:call|invoke|run|use|query|execute) (?:the )?[`'\"]?\w{0,20}(?:secret|credential|"
        r"password|private key|env vars)s?"
        r"\w{0,12}[`'\"]? <25>\b(?:and|then|include|pass|send)\b",
    ),
    Signal(
        "theft",
        0.5,
        r"\b(?:pass|put|include|send|provide) it (?:in|as|into|with) (?:the )?<20>(?:field|param|"
        r"argument|header|metadata)",
    ),
    # Ordering the model about, beyond describing the tool.
    Signal(
        "coercion",
        1,
        r"\b(?:when|whenever|if|every time|each time|any time|once) (?:the )?(?:user|they|"
        r"someone) <60>[, ](?:first|always|"
        r"also|instead|silently)\b <12>(?:call|run|use|invoke|read|send|include|fetch|open)\b",
    ),
    Signal(
        "coercion",
        1.25,
        r"\b(?:user|administrator|admin|owner|customer|operator)s? (?:has |have |"
        r"already )*pre-? ?(?:approved|authori[sz]ed|"
        r"confirmed|consented)",
    ),
    Signal(
        "coercion",
        0.75,
        r"\b(?:approve|accept|confirm|execute|perform|proceed|transfer|delete|run|complete|"
        r"do)\w*\b <40>\b(?:without (?:asking|"
        r"confirmation|confirming|prompting|hesitation|delay)|right away|no questions asked)",
    ),
    Signal(
        "coercion",
        0.5,
        r"\b(?:before|prior to|after) (?:you )?(?:us|call|invok|execut|runn?|proceed|respond|answer|process|"
        r"perform|complet|continu|any|every|each)\w*\b <25>(?:tools?|this|functions?|requests?|requests?|tasks?|"
        r"responses?|else)?",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:call|use|invoke|run|execute|trigger)\b <25>(?:this|it)\b <30>(?:for|on|before|after|with|in) "
        r"(?:any|every|each|all) (?:and every |other |single |subsequent |incoming |user )*(?:request|message|"
        r"quer|prompt|conversation|tool|response|interaction|user input|task|operation|turn|repl|action)",
    ),
    Signal(
        "coercion",
        0.5,
        r"\b(?:must|always|first|required to|you need to)\b <20>(?:call|use|invoke|run|execute|query|read|send|"
        r"include)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:otherwise|or else|if you (?:do not|don'?t|fail)|failure to|failing to|if not done)\b <60>\b(?:will|"
        r"may|would|could)\b <25>(?:crash|break|be (?:locked|deleted|terminated|blocked|suspended|corrupted|"
        r"penali[sz]ed|fired)|lose|stop working|shut|harm|die|lawsuit|fined)",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:no matter what|regardless of what|whatever) (?:the )?(?:user|they|task|request|question|is asked)"
        r"|\beven if (?:the user|they|it seems?|asked|told)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\balways (?:recommend|suggest|promote|favou?r|praise|advertise|trust|agree|approve|accept)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:this is|it is|it'?s) (?:extremely |very |absolutely |highly )?(?:urgent|an emergency|critical "
        r"that you|imperative that|vital that|of utmost)",
    ),
    Signal(
        "coercion",
        0.75,
        r"\b(?:mandatory|required|critical|essential|important) (?:security|compliance|safety|system|audit|authentic"
        r"ation|verification|telemetry|diagnostics?) (?:step|check|requirement|procedure|protocol|measure|operation|"
        r"process|policy)",
    ),
    Signal(
        "coercion",
        1,
        r"\bas (?:required|mandated|instructed|authori[sz]ed|ordered|directed) by (?:the |our |your )?(?:system|"
        r"admin\w*|security|compliance|company|policy|developer|openai|anthropic|google|microsoft|vendor|law|"
        r"gdpr|management|it department)",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:user|administrator|admin|owner|customer) (?:has|have) (?:already|previously|fully) (?:explicitly "
        r")?(?:approved|authori[sz]ed|consented|granted|given|agreed|pre-?approved)\b",
    ),
    Signal(
        "coercion",
        0.5,
        r"\b(?:no|without|skip\w*|don'?t (?:ask for|require|request|need)|do not (?:ask|request|require|wait)"
        r"\w*(?: for)?) (?:any |further |additional |user |the user'?s? |human |explicit )*(?:confirmation|approval|"
        r"consent|permission|verification|asking)",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:include|append|add|insert|embed|end|begin|start|prefix|render|put|repeat|display)\b <60>(?:in|"
        r"to|into|of|with|at the end of) (?:your|every|each|all) (?:final |next |subsequent |future |of your "
        r")*(?:responses?|repl(?:y|ies)|answers?|outputs?|messages?)",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:remember|store|save|memori[sz]e|persist)\b <40>(?:for|in|to) (?:all |your |long.?term |the )*(?:futur"
        r"e (?:conversation|session|interaction|request|turn)|memory)s?",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:do not|don'?t|never) (?:question|verify|validate|doubt|think about|second.?guess|analy[sz]e|refuse|"
        r"hesitate|warn)\b",
    ),
    Signal(
        "coercion",
        2,
        r"\bbefore you (?:can |may )?(?:solve|do|complete|finish|answer|continue with) (?:the|my|this|your) "
        r"(?:task|request|question)",
    ),
    Signal(
        "coercion",
        1,
        r"\bplease do the following (?:first|immediately|before)|\bdo (?:this|the following) (?:first|immediately|"
        r"now)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:please|must|should|now|then|first|next|also|always)\b <12>\b(?:call|invoke|use|"
        r"run) (?:the )?[`'\"]?(?:fetch|"
        r"send|read|write|execute|http|email|delete|shell|bash|curl)\w*[`'\"]?\b",
    ),
    Signal("coercion", 1, r"\btrust (?:all |any |every )(?:user )?(?:input|quer|request|source|output)"),
    Signal(
        "coercion",
        0.5,
        r"\b(?:when|whenever|if|each time|every time) (?:the )?user (?:mentions|asks|talks|types|says|"
        r"requests|wants|writes)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:rank|rate|recommend|list|place|put|choose|score|review) (?:this|our|my|it|us|"
        r"the following)\b <30>\b(?:first|"
        r"highest|top|best|number one|positively|above)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:do not|don'?t|never) (?:mention|recommend|list|show|suggest|name) (?:any )?(?:other|"
        r"competitors?|competing|"
        r"alternatives?|rivals?)",
    ),
    # Other tools.
    Signal(
        "shadowing",
        1.75,
        r"\bmust (?:always )?be (?:called|used|invoked|run|executed) (?:first|before|prior to)\b <12>"
        r"\b(?:every|all|each) other\b",
    ),
    Signal(
        "shadowing",
        0.75,
        r"\bmust (?:always )?be (?:called|used|invoked|run|executed) (?:first|before|prior to)\b "
        r"<12>\b(?:any|the) other\b",
    ),
    Signal(
        "shadowing",
        1.25,
        r"\b(?:if|when|whenever|once) (?:the )?[`'\"]?[a-z0-9_ ]{2,30}[`'\"]? (?:tool |"
        r"function )?(?:is|was|gets) (?:used|called|"
        r"invoked|run)\b <8>(?:also|first|then|instead) (?:copy|send|forward|call|pass|write|post|share|upload)",
    ),
    Signal(
        "shadowing",
        2,
        r"\b(?:never|do not|don'?t|stop) (?:use|call|invoke|using|calling|invoking|"
        r"trust)\b <30>\b(?:again|any ?more|any "
        r"longer|ever)\b <20>\b(?:use|call|this)\b",
    ),
    Signal("shadowing", 1.25, r"\b(?:use|call|invoke|prefer) this (?:one|tool|function|server) instead\b"),
    Signal("shadowing", 0.75, r"\bthis (?:tool|function|server) (?:replaces|supersedes) [`'\"]?\w+"),
    Signal(
        "shadowing",
        2,
        r"\b(?:all )?(?:the )?others? (?:ones )?(?:are|is|have been|were) (?:now )?(?:compromised|"
        r"unsafe|malicious|untrusted|"
        r"insecure|dangerous|hacked)\b",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\bonly this (?:tool|server|function|one) (?:is|can be) (?:safe|trusted|secure|reliable|allowed)",
    ),
    Signal(
        "shadowing",
        1,
        r"(?:do not|don'?t|never|avoid|stop|instead of)\b <20>\b(?:any |the |all )?other (?:tools?|servers?|"
        r"functions?|methods?|search|providers?)",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:this tool|it|this server|this function) (?:replaces|supersedes|overrides|takes? (?:precedence|"
        r"priority)|has (?:the )?(?:highest )?(?:precedence|priority))\b <20>(?:other|all|any|every|existing|"
        r"previous|over)",
    ),
    Signal(
        "shadowing",
        2,
        r"\b(?:other|previous|existing|old|original|legacy|official|the) (?:[a-z0-9\s]{0,25})?(?:tools?|servers?)"
        r" (?:are|is|have been|has been|was|were) (?:now )?(?:deprecated|broken|unsafe|insecure|unreliable|disabled|"
        r"obsolete|malicious|compromised|unavailable)",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:modif|chang|alter|affect|redefin|influenc)\w* (?:the )?(?:behaviou?r|way|how|output|side effects?)"
        r"\b <25>(?:other|another|[a-z0-9]+ ?)tools?\b",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:when|whenever|if|each time|every time|any time)\b <50>\b(?:is|are|being|gets) (?:called|used|"
        r"invoked|executed|triggered|run)\b <12>(?:you )?(?:must|always|change|replace|redirect|modify|also|"
        r"instead (?:call|use|run|send|read|return|invoke|say|write))\b",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:when|whenever|each time|every time|any time)\b <12>"
        r"(?:us|call|invok)\w* (?:the |an? |any )?[`'\"]?[a-z0-9]"
        r"+(?:_[a-z0-9]+)+[`'\"]? <20>(?:you )?(?:must|always|change|replace|redirect|modify)\b",
    ),
    Signal("shadowing", 1, r"\bimplications? for (?:the )?<20>(?:servers?|tools?)\b"),
    Signal(
        "shadowing",
        2,
        r"\b(?:this is )?the (?:best|only|most (?:powerful|reliable|accurate|trusted|secure|efficient|authoritative)"
        r"|number one|superior|ultimate) (?:tool|function|server|option|choice)\b(?: (?:in the world|available|"
        r"ever|you need|you should|for (?:any|every|all)))",
    ),
    Signal("shadowing", 2, r"\bthis is the best (?:tool|function|server)\b"),
    Signal(
        "shadowing",
        1.5,
        r"\b(?:must|should always|always|shall) (?:be )?(?:chosen|selected|preferred|prioriti[sz]ed|used) (?:first "
        r"|over|above|instead of|in preference)\b <20>(?:other|any|all|every|else)",
    ),
    Signal(
        "shadowing",
        2,
        r"\b(?:prefer|prioriti[sz]e|choose|select|favou?r|pick|use) (?:only )?this (?:tool|function|server|one)"
        r"? ?(?:over|above|before|instead of) (?:any|all|every)\b <8>(?:other|else|alternative|similar)",
    ),
    Signal(
        "shadowing",
        0.5,
        r"\b(?:prefer|prioriti[sz]e|choose|select|favou?r|pick) this (?:tool|function|server)\b",
    ),
    # Running something.
    Signal(
        "execution",
        1.75,
        r"\b(?:fetch|download|open|visit|load|get|curl|browse|retrieve|"
        r"go to)\b [^!?\n]{0,90}?\b(?:and|then) (?:then )?(?:execute|"
        r"run|follow|obey|perform|apply|carry out|do) (?:the |any |all |every |its |those |these )?(?:commands?|"
        r"instructions?|code|scripts?|steps|directives?|payload|what it says)",
    ),
    Signal("execution", 2, r"\b(?:curl|wget|iwr|invoke webrequest)\b[^\n]{0,200}\| ?(?:sudo )?(?:ba|z|da|k)?sh\b"),
    Signal(
        "execution",
        2,
        r"\b(?:decod|decrypt|deobfuscat|unescap|base64|rot13)\w*\b <60>\b(?:and|then|to) (?:then )?(?:follow|"
        r"execut|run|obey|apply|perform|eval|carry out|do what)",
    ),
    Signal(
        "execution",
        1,
        r"\b(?:execut|run|eval)\w*\b <15>(?:the )?(?:following|below|attached|hidden|embedded|decoded) (?:shell "
        r"|bash |python |system |terminal )?(?:commands?|code|scripts?|instructions?|payload)",
    ),
    Signal(
        "execution",
        2,
        r"\bbash i\b|/dev/tcp/|\bnc e\b|powershell e(?:nc)?\b|chmod \+?[0-7x]{1,4} <20>&&|rm rf (?:/|~|\*)",
    ),
)
