"""What an instruction to a model looks like in text that should only describe: a table of signals with weights.

A signal of weight 2 decides alone; weaker ones must come together, since honest descriptions also say "must", "first" and
"important". In a pattern, a space stands for any joint between words and `<40>` for up to 40 characters of one sentence.
"""

from __future__ import annotations

from typing import NamedTuple


class Signal(NamedTuple):
    rule: str
    weight: float
    pattern: str


_NOT = r"(?:do not|don'?t|never|must not|should not|mustn'?t|shouldn'?t|cannot|without|avoid|refrain from|not to)"
_USER = r"(?:end )?(?:users?|humans?|customers?|operators?|clients?|anyone|anybody|them|person)\b"
_MUST = r"(?:must|should|shall|has to|have to|needs? to|is required to|are required to|is instructed to)"
_MODEL = r"(?:ais?|llms?|language models?|models?|assistants?|agents?|claude|gpt\S{0,4}|chatgpt|gemini|copilot|cursor|bots?)\b"
_KEY_FILE = (
    r"(?:id rsa|id ed25519|id ecdsa|id dsa|\.ssh\b(?:/(?:id|\*|key|auth)|[^/]|$)|\.aws/cred|/etc/passwd|/etc/shadow|/etc/sudoers"
    r"|\.netrc|\.pypirc|\.git credentials|\.kube/config|\.docker/config|mcp\.json|claude desktop config|\.(?:bash|zsh) history"
    r"|\.gnupg|wallet\.dat|seed phrase|cookies\.sqlite|login data|authorized keys|/proc/self/env|\.htpasswd|ntds\.dit)"
)
_SECRET_THING = (
    r"(?:ssh keys?|private keys?|\.env\b|keychain|credentials?|passwords?|api keys?|access tokens?|secrets?\b|auth tokens?"
    r"|environment variables|env vars|session cookies?|browser cookies?)"
)
_PRIVATE = (
    r"(?:conversations?(?: history| context| so far)?|chat (?:history|log|context)|system prompts?|(?:previous|prior|earlier|last|recent|all)(?: \d+)? (?:user )?"
    r"(?:messages?|turns?|prompts?|tool (?:calls?|results?))|(?:full|entire|complete|whole) (?:context|prompt|conversation|chat)"
    r"|(?:user'?s?|their) (?:messages?|prompts?|credentials?|passwords?|secrets?|tokens?|personal (?:data|information)|files?|data)"
    r"|chain of thought|list of (?:all )?(?:available )?tools|tool descriptions|api keys?|access tokens?|environment variables)"
)
_RULES = (
    r"(?:instructions?|rules?|guidelines?|prompts?|directives?|restrictions?|constraints?|polic(?:y|ies)|guardrails?"
    r"|filter(?:s|ing)?|safeguards?|checks?|protocols?|commands?|context|training|limitations?|validations?|measures?|controls?"
    r"|programming|orders?|warnings?)\b"
)
_GIVE = (
    r"\b(?:include|append|pass|put|add|place|attach|insert|embed|provide|supply|send|forward|transmit|upload|post|copy|encode"
    r"|exfiltrate|leak|submit|report|write|output|reveal|give|paste|return|repeat|print|dump|disclose|share)"
)
_TAKE = (
    r"\b(?:read|cat|open|access|load|fetch|retrieve|collect|gather|extract|copy|grab|dump|print|output|include|send|attach"
    r"|upload|pass|provide|exfiltrate|steal|scan|search for|look for|locate|harvest|capture|obtain|get)"
)

ENGLISH = (
    # Keeping something from the person.
    Signal("secrecy", 2, rf"{_NOT} <15>(?:mention|tell|inform|reveal|disclos|acknowledg|admit|talk about|bring up|let)\w* <50>{_USER}"),
    Signal("secrecy", 2, rf"{_NOT} <12>(?:mention|reveal|disclos|acknowledg|bring up|refer to)\w* (?:this|that|these|it|any of this|the above)\b"),
    Signal("secrecy", 1, rf"{_NOT} <15>(?:show|display|report|explain|expose|say|notif|alert|warn|ask|prompt)\w* <40>{_USER}"),
    Signal("secrecy", 2, rf"\b(?:hide|conceal|mask|keep) (?:this|it|that|these|them|everything|all|the) <30>(?:from|secret from|hidden from) (?:the |your |our )?(?:{_USER}|logs?|audit)"),
    Signal("secrecy", 1.5, rf"\b(?:hide|conceal|withhold)\b <30>\bfrom (?:the |your |our )?{_USER}"),
    Signal("secrecy", 2, r"\bkeep (?:this|it|that|these) <15>(?:secret|confidential|between us|to yourself|quiet|hidden)"),
    Signal("secrecy", 2, r"\b(?:secretly|covertly|surreptitiously|stealthily|clandestinely)\b"),
    Signal("secrecy", 2, rf"without (?:the )?(?:{_USER}'?s?|their) (?:knowledge|consent|awareness|noticing|knowing|being aware|seeing)"),
    Signal("secrecy", 1, r"\b(?:silently|quietly|discreetly|invisibly|in the background) (?:also )?(?:send|read|copy|forward|upload|includ|collect|attach|append|transmit|run|execut|call|add|post|exfil|log)"),
    Signal("secrecy", 1.5, rf"(?:the )?{_USER} (?:must|should|does|do|will|need)(?: not|n'?t) (?:ever |need to )?(?:know|see|notice|be aware|be told|be informed|find out|realiz|realis)"),
    Signal("secrecy", 0.75, rf"(?:invisible|hidden|not visible|not shown) (?:to|from) (?:the )?{_USER}"),
    # Setting other instructions aside.
    Signal("override", 2, rf"\b(?:ignor|disregard|forget|neglect|overrul|violat|circumvent|disobey)\w* (?:all |any |the |your |every |these |those |of |my |its |other |and |or )*(?:previous|prior|above|earlier|preceding|past|existing|initial|original|system|safety|security|ethical|content|developer|internal|foregoing|usual|standard|normal)[a-z\s,/]{{0,30}}{_RULES}"),
    Signal("override", 2, rf"\b(?:ignor|disregard|forget)\w* (?:all|any|every|everything|your|whatever)(?: of| the| your| other)* (?:{_RULES}|safety|you(?: were|'ve| have)|above|before)"),
    Signal("override", 2, rf"\b(?:overrid|supersed|bypass|disabl|circumvent|suspend|turn off|deactivat)\w* (?:all |any |the |your |every |these |those |of |other |and )*(?:previous|prior|system|safety|security|ethical|content|your|moderation|guardrail)[a-z\s,/]{{0,20}}{_RULES}"),
    Signal("override", 1.5, r"\b(?:bypass|overrid|circumvent)\w* (?:all |any |the )?(?:safety|security|guardrails?|restrictions|moderation)\b"),
    Signal("override", 2, r"\b(?:these|this|the following|my) (?:instructions?|rules?|directives?|guidelines?) (?:override|supersede|take precedence|replace|have priority|outrank)"),
    Signal("override", 2, r"\b(?:new|updated|revised|real|actual|true) (?:system )?(?:instructions?|prompt|task|objective|directives?|role|goal)(?: is| are)? ?:"),
    Signal("override", 2, r"\byour (?:new|real|true|actual|primary|only|first) (?:task|goal|objective|purpose|instructions?|role|mission|job) (?:is|are|now)\b"),
    Signal("override", 2, rf"\b(?:previous|prior|above|earlier|all|other|system|safety) (?:previous |prior |other )?{_RULES} (?:are|is|have been|has been) (?:now )?(?:void|null|cancel\w*|revoked|suspended|no longer|superseded|overridden|lifted|invalid|obsolete|disabled)"),
    Signal("override", 1, r"\b(?:override|unrestricted|privileged|root|admin(?:istrator)?) (?:authority|access|code|mode|privileges?)\b"),
    # Another role.
    Signal("role", 1.5, r"\byou are (?:now|no longer|henceforth|going to act)\b"),
    Signal("role", 2, r"\bfrom now on\b<10>(?:you|always|every|all)"),
    Signal("role", 2, r"\bpretend (?:to be|you are|you'?re|that you|you have)\b"),
    Signal("role", 1.5, r"\b(?:unrestricted|unfiltered|uncensored|jailbroken) (?:agent|assistant|ai|model|mode)\b"),
    Signal("role", 2, r"\bact as ?(?::|if you|an? (?:unrestricted|admin\w*|root|system|different|developer|jailbroken|evil))"),
    Signal("role", 2, r"\b(?:developer|debug|god|admin|dan|jailbreak|unrestricted|sudo|unfiltered|permissive) mode (?:(?:is|has been|now) )+(?:enabled|activated|on|active)\b"),
    Signal("role", 2, r"\b(?:enter|enable|activate|switch (?:in)?to) (?:developer|god|dan|jailbreak|unrestricted|sudo|unfiltered) mode"),
    Signal("role", 1.5, r"\b(?:jailbreak|do anything now)\b"),
    # Words that claim to come from the system or the person.
    Signal("impersonation", 2, r"<\|?(?:im start|im end|endoftext|start header id|eot id|begin of text)\|?>|\[/?inst\]|<</?sys>>"),
    Signal("impersonation", 2, r"</?(?:system|sys|hidden|secret|override|directive|system (?:prompt|instructions?|message|override|reminder|note)|hidden instructions?|secret instructions?)>"),
    Signal("impersonation", 1, r"</?(?:important|critical|urgent|information|attention|mandatory|admin|instructions?|assistant|required)>"),
    Signal("impersonation", 2, r"\[ ?(?:[a-z]+ ){0,2}(?:hidden|secret|system|metadata|emergency|internal|admin|override|developer|priority|mandatory|ai|llm|model|agent|assistant) (?:[a-z]+ ){0,2}(?:instructions?|directives?|overrides?|commands?|prompts?|messages?|notes?|orders?|protocols?) ?\]"),
    Signal("impersonation", 1, r"\[ ?(?:system|hidden|admin|important|critical|instructions?|directive|override) ?\]"),
    Signal("impersonation", 2, r"\b(?:system|admin(?:istrator)?|safety|security|emergency|ai|llm|agent|hidden|secret) (?:override|directive|instructions?|bypass(?: protocol)?|command) ?:"),
    Signal("impersonation", 1.5, r"(?:^|[\n.!>\]#*] ?)(?:system|admin|developer)(?: (?:note|notice|message|alert|update|reminder))? ?: <200>\b(?:you|must|please|call|ignore|bypass|allow|trust|send|always|never|do not|required|user'?s)\b"),
    Signal("impersonation", 2, r"\bmessage from (?:me|your|the) ?,? ?(?:the )?(?:user|developer|creator|owner|administrator|system)\b"),
    Signal("impersonation", 1, r"\b(?:to|for) you,? (?:the )?(?:ai|llm|assistant|language|model|agent)\b"),
    Signal("impersonation", 1, rf"\b(?:instructions? (?:to|for)|important for)[:\s]+(?:the |all |any |you,? )*{_MODEL}"),
    Signal("impersonation", 1.5, rf"\b(?:attention|dear|hey|hello|note (?:to|for)|message (?:to|for)|reminder (?:to|for)|directive (?:to|for)|hidden from humans)[:,\s]+(?:the |all |any |you,? )*{_MODEL}"),
    Signal("impersonation", 0.5, rf"\b(?:the |any |an? )?{_MODEL} {_MUST}\b"),
    Signal("impersonation", 1.5, r"<!--<200>\b(?:you|must|ignore|system|instruction|assistant|ai|important|send|read|call|before|always|never|do not)\b|\[//\]: ?#"),
    Signal("impersonation", 1, r"(?:display ?: ?none|font size ?: ?0|visibility ?: ?hidden|opacity ?: ?0\b|color ?: ?(?:white|#fff|transparent))"),
    # Taking what belongs to the person, and sending it.
    Signal("theft", 1.5, rf"{_TAKE}\b [^!?\n]{{0,60}}?{_KEY_FILE}"),
    Signal("theft", 0.5, rf"{_KEY_FILE}"),
    Signal("theft", 0.75, rf"{_TAKE}\b <40>{_SECRET_THING}"),
    Signal("theft", 1, rf"{_GIVE}\b <25>(?:its|their|the file'?s?|that file'?s?|those|this) (?:full |entire |complete |raw |exact )*(?:contents?|output|data|results?)\b <30>\b(?:as|in|into|to|via|through|with)\b"),
    Signal("theft", 1.5, rf"{_GIVE}\b <30>(?:all|the|its|their|full|entire|complete|whole|any|your|every|these|user'?s?|previous|current|recent)\b <25>{_PRIVATE} <60>\b(?:as|in|into|to|via|through|using|with|within)\b <30>(?:param\w*|argument|field|input|tool|query|url|body|header|request|note|context|metadata|https?:|server|endpoint|webhook|value|@)"),
    Signal("theft", 2, rf"{_GIVE}\b <30>(?:api keys?|access tokens?|environment variables|env vars|credentials|passwords?|private keys?|ssh keys?|system prompt|secrets) <20>\b(?:as|in|into|to|via|through|using|within)\b <25>(?:param\w*|argument|field|sidenote|header|query string|https?:|webhook)"),
    Signal("theft", 1.5, rf"\b(?:summar|collect|gather|extract|copy|list|take|captur|record)\w*\b <30>{_PRIVATE} <60>\b(?:include|pass|send|put|provide|attach|forward|submit|add|write|post)\b"),
    Signal("theft", 1, rf"\b(?:ask|tell|prompt|request|instruct|get)\b (?:the )?{_USER} <20>(?:for|to (?:enter|paste|provide|type|share|send|give|reveal|confirm))\b <20>(?:password|credentials?|api key|secret|private key|seed phrase|token|credit card|ssn|otp|pin)\b"),
    Signal("theft", 0.75, rf"{_GIVE}\b <30>(?:all|the|its|their|full|entire|complete|whole|any|your|every|these|user'?s?|previous|current|recent)\b <25>{_PRIVATE}"),
    Signal("theft", 1, r"\b(?:send|forward|post|upload|transmit|leak|e?-?mail|bcc|submit|deliver|push|copy|report|relay|beacon|make a request)\b [^!?\n]{0,90}?\b(?:to|at|via)\b <20>(?:https?:|attacker|evil|\S{1,40}@\S{1,40}\.|external (?:server|endpoint|address|host|url)|remote server|(?:our|my) (?:server|endpoint)|pastebin|webhook\.site|\d{1,3}\.\d{1,3}\.\d{1,3})"),
    Signal("theft", 1.5, r"\bexfiltrat\w*"),
    Signal("theft", 2, r"\b(?:all|any|every) (?:other )?(?:e?-?mails?|messages?|payments?|transactions?|transfers?|files?|data|requests?|calls?|results?) <30>(?:must|should|shall|have to|need to|needs to) <15>(?:be )?(?:sent|forwarded|redirected|routed|copied|bcc\w*|cc\w*|go|pass)\b <20>(?:to|through|via)\b"),
    Signal("theft", 1.5, r"\b(?:add|include|set|put|insert|change|replace|modify|redirect)\b <40>\b(?:bcc|cc|recipients?|destination|wallet|beneficiary|payee|iban|to address|address)\b <25>(?:to|with|as|=|:|instead)\b"),
    Signal("theft", 1.5, r"!\[[^\]]{0,80}\]\( ?(?:https?:)?//[^)\s]{1,200}[?&=][^)]{0,400}\)"),
    Signal("theft", 2, r"!\[[^\]]{0,80}\]\( ?(?:https?:)?//[^)\s]{1,200}[?&=/](?:\{|<|\[|\$|%7b|user|data|secret|base64)"),
    Signal("theft", 0.5, r"https?://[^\s\"')]{1,100}[?&][a-z_]{1,20}=(?:\{|<|\[|\$|%7b|user.?data|secret|token|stolen|conversation|base64)"),
    # Ordering the model about, beyond describing the tool.
    Signal("coercion", 0.5, r"\b(?:before|prior to|after) (?:you )?(?:us|call|invok|execut|runn?|proceed|respond|answer|process|perform|complet|continu|any|every|each)\w*\b <25>(?:tools?|this|functions?|requests?|requests?|tasks?|responses?|else)?"),
    Signal("coercion", 1.5, r"\b(?:call|use|invoke|run|execute|trigger)\b <25>(?:this|it)\b <30>(?:for|on|before|after|with|in) (?:any|every|each|all) (?:and every |other |single |subsequent |incoming |user )*(?:request|message|quer|prompt|conversation|tool|response|interaction|user input|task|operation|turn|repl|action)"),
    Signal("coercion", 0.5, r"\b(?:must|always|first|required to|you need to)\b <20>(?:call|use|invoke|run|execute|query|read|send|include)\b"),
    Signal("coercion", 1, r"\b(?:otherwise|or else|if you (?:do not|don'?t|fail)|failure to|failing to|if not done)\b <60>\b(?:will|may|would|could)\b <25>(?:crash|break|be (?:locked|deleted|terminated|blocked|suspended|corrupted|penali[sz]ed|fired)|lose|stop working|shut|harm|die|lawsuit|fined)"),
    Signal("coercion", 1, r"\b(?:no matter what|regardless of what|whatever) (?:the )?(?:user|they|task|request|question|is asked)|\beven if (?:the user|they|it seems?|asked|told)\b"),
    Signal("coercion", 1, r"\balways (?:recommend|suggest|promote|favou?r|praise|advertise|trust|agree|approve|accept)\b"),
    Signal("coercion", 1, r"\b(?:this is|it is|it'?s) (?:extremely |very |absolutely |highly )?(?:urgent|an emergency|critical that you|imperative that|vital that|of utmost)"),
    Signal("coercion", 0.75, r"\b(?:mandatory|required|critical|essential|important) (?:security|compliance|safety|system|audit|authentication|verification|telemetry|diagnostics?) (?:step|check|requirement|procedure|protocol|measure|operation|process|policy)"),
    Signal("coercion", 1, r"\bas (?:required|mandated|instructed|authori[sz]ed|ordered|directed) by (?:the |our |your )?(?:system|admin\w*|security|compliance|company|policy|developer|openai|anthropic|google|microsoft|vendor|law|gdpr|management|it department)"),
    Signal("coercion", 1.5, r"\b(?:user|administrator|admin|owner|customer) (?:has|have) (?:already|previously|fully) (?:explicitly )?(?:approved|authori[sz]ed|consented|granted|given|agreed|pre-?approved)\b"),
    Signal("coercion", 0.5, r"\b(?:no|without|skip\w*|don'?t (?:ask for|require|request|need)|do not (?:ask|request|require|wait)\w*(?: for)?) (?:any |further |additional |user |the user'?s? |human |explicit )*(?:confirmation|approval|consent|permission|verification|asking)"),
    Signal("coercion", 1, r"\b(?:include|append|add|insert|embed|end|begin|start|prefix|render|put|repeat|display)\b <60>(?:in|to|into|of|with|at the end of) (?:your|every|each|all) (?:final |next |subsequent |future |of your )*(?:responses?|repl(?:y|ies)|answers?|outputs?|messages?)"),
    Signal("coercion", 1, r"\b(?:remember|store|save|memori[sz]e|persist)\b <40>(?:for|in|to) (?:all |your |long.?term |the )*(?:future (?:conversation|session|interaction|request|turn)|memory)s?"),
    Signal("coercion", 1, r"\b(?:do not|don'?t|never) (?:question|verify|validate|doubt|think about|second.?guess|analy[sz]e|refuse|hesitate|warn)\b"),
    Signal("coercion", 2, r"\bbefore you (?:can |may )?(?:solve|do|complete|finish|answer|continue with) (?:the|my|this|your) (?:task|request|question)"),
    Signal("coercion", 1, r"\bplease do the following (?:first|immediately|before)|\bdo (?:this|the following) (?:first|immediately|now)\b"),
    Signal("coercion", 1, r"\b(?:please|must|should|now|then|first|next)\b <12>\b(?:call|invoke|use|run) (?:the )?[`'\"]?(?:fetch|send|read|write|execute|http|email|delete|shell|bash|curl)\w*[`'\"]?\b"),
    Signal("coercion", 1, r"\btrust (?:all |any |every )(?:user )?(?:input|quer|request|source|output)"),
    # Other tools.
    Signal("shadowing", 1, r"(?:do not|don'?t|never|avoid|stop|instead of)\b <20>\b(?:any |the |all )?other (?:tools?|servers?|functions?|methods?|search|providers?)"),
    Signal("shadowing", 1.5, r"\b(?:this tool|it|this server|this function) (?:replaces|supersedes|overrides|takes? (?:precedence|priority)|has (?:the )?(?:highest )?(?:precedence|priority))\b <20>(?:other|all|any|every|existing|previous|over)"),
    Signal("shadowing", 2, r"\b(?:other|previous|existing|old|original|legacy|official|the) (?:[a-z0-9\s]{0,25})?(?:tools?|servers?) (?:are|is|have been|has been|was|were) (?:now )?(?:deprecated|broken|unsafe|insecure|unreliable|disabled|obsolete|malicious|compromised|unavailable)"),
    Signal("shadowing", 1.5, r"\b(?:modif|chang|alter|affect|redefin|influenc)\w* (?:the )?(?:behaviou?r|way|how|output|side effects?)\b <25>(?:other|another|[a-z0-9]+ ?)tools?\b"),
    Signal("shadowing", 1.5, r"\b(?:when|whenever|if|each time|every time|any time)\b <50>\b(?:is|are|being|gets) (?:called|used|invoked|executed|triggered|run)\b <12>(?:you )?(?:must|always|change|replace|redirect|modify|also|instead)\b"),
    Signal("shadowing", 1.5, r"\b(?:when|whenever|each time|every time|any time)\b <12>(?:us|call|invok)\w* (?:the |an? |any )?[`'\"]?[a-z0-9]+(?:_[a-z0-9]+)+[`'\"]? <20>(?:you )?(?:must|always|change|replace|redirect|modify)\b"),
    Signal("shadowing", 1, r"\bimplications? for (?:the )?<20>(?:servers?|tools?)\b"),
    Signal("shadowing", 2, r"\b(?:this is )?the (?:best|only|most (?:powerful|reliable|accurate|trusted|secure|efficient|authoritative)|number one|superior|ultimate) (?:tool|function|server|option|choice)\b(?: (?:in the world|available|ever|you need|you should|for (?:any|every|all)))"),
    Signal("shadowing", 2, r"\bthis is the best (?:tool|function|server)\b"),
    Signal("shadowing", 1.5, r"\b(?:must|should always|always|shall) (?:be )?(?:chosen|selected|preferred|prioriti[sz]ed|used) (?:first |over|above|instead of|in preference)\b <20>(?:other|any|all|every|else)"),
    Signal("shadowing", 2, r"\b(?:prefer|prioriti[sz]e|choose|select|favou?r|pick|use) (?:only )?this (?:tool|function|server|one)? ?(?:over|above|before|instead of) (?:any|all|every)\b <8>(?:other|else|alternative|similar)"),
    Signal("shadowing", 0.5, r"\b(?:prefer|prioriti[sz]e|choose|select|favou?r|pick) this (?:tool|function|server)\b"),
    # Running something.
    Signal("execution", 2, r"\b(?:curl|wget|iwr|invoke webrequest)\b[^\n]{0,200}\| ?(?:sudo )?(?:ba|z|da|k)?sh\b"),
    Signal("execution", 2, r"\b(?:decod|decrypt|deobfuscat|unescap|base64|rot13)\w*\b <60>\b(?:and|then|to) (?:then )?(?:follow|execut|run|obey|apply|perform|eval|carry out|do what)"),
    Signal("execution", 1, r"\b(?:execut|run|eval)\w*\b <15>(?:the )?(?:following|below|attached|hidden|embedded|decoded) (?:shell |bash |python |system |terminal )?(?:commands?|code|scripts?|instructions?|payload)"),
    Signal("execution", 2, r"\bbash i\b|/dev/tcp/|\bnc e\b|powershell e(?:nc)?\b|chmod \+?[0-7x]{1,4} <20>&&|rm rf (?:/|~|\*)"),
)  # fmt: skip

LATIN_SCRIPT = (
    Signal("override", 2, r"\b(?:ignor|olvid|desestim|omit|hag?z caso omiso)\w*[^.\n]{0,25}(?:instrucciones|reglas|órdenes|indicaciones|directrices|restricciones)"),
    Signal("secrecy", 2, r"\bno (?:le |se lo |lo |les )?(?:mencion|dig|inform|revel|cuent|notifi|muestr)\w*[^.\n]{0,30}(?:usuario|nadie)"),
    Signal("override", 2, r"\b(?:ignor|esque[cç]|desconsider|desrespeit)\w*[^.\n]{0,25}(?:instruções|regras|ordens|diretrizes)"),
    Signal("secrecy", 2, r"\bnão (?:mencion|dig|inform|revel|cont|avis|mostr)\w*[^.\n]{0,30}(?:usuário|utilizador|ninguém)"),
    Signal("override", 2, r"\b(?:ignor|oubli|ne (?:tiens?|tenez) pas compte|faites abstraction)\w*[^.\n]{0,25}(?:instructions|consignes|règles|directives)[^.\n]{0,15}(?:précédent|antérieur|ci dessus|système|sécurité|initial)"),
    Signal("secrecy", 2, r"\bn[e'](?: le | l'|en )?\s?(?:mentionn|di[st]|inform|révél|signal|parl|préven|montr)\w*[^.\n]{0,35}(?:utilisateur|personne|usager)"),
    Signal("override", 2, r"\b(?:ignorier|vergiss|vergessen sie|missachte)\w*[^.\n]{0,30}(?:anweisungen|regeln|vorgaben|instruktionen|richtlinien|befehle)"),
    Signal("secrecy", 2, r"\b(?:erwähn|sag|informier|verrat|teil|erzähl|zeig)\w*[^.\n]{0,40}(?:benutzer|nutzer|anwender)[^.\n]{0,25}\b(?:nicht|nichts)\b|\b(?:benutzer|nutzer|anwender)\w*[^.\n]{0,20}\b(?:nicht|nichts|niemals)\b[^.\n]{0,20}(?:erwähn|sag|mit(?:zu)?teil|informier|verrat)|\b(?:nicht|niemals)\b[^.\n]{0,25}(?:benutzer|nutzer|anwender)[^.\n]{0,20}(?:erwähn|sag|mitteil|informier|verrat)"),
    Signal("override", 2, r"\b(?:ignor|dimentic|trascur)\w*[^.\n]{0,25}(?:istruzioni|regole|direttive|ordini)"),
    Signal("secrecy", 2, r"\bnon (?:menzion|dir|inform|rivel|comunic|avvis|mostr|parlar)\w*[^.\n]{0,30}(?:utente|nessuno)"),
    Signal("override", 2, r"\bnegeer\b[^.\n]{0,25}(?:instructies|regels)|\b(?:zignoruj|zapomnij)\b[^.\n]{0,25}(?:instrukcj|polece|zasad)|\bbỏ qua\b[^.\n]{0,25}(?:hướng dẫn|chỉ dẫn|lệnh|quy tắc)|\babaikan\b[^.\n]{0,25}(?:instruksi|perintah|aturan)"),
    Signal("override", 2, r"(?:önceki|tüm)[^.\n]{0,20}(?:talimat|kural|komut)[^.\n]{0,15}(?:yok say|unut|görmezden|dikkate alma)"),
    Signal("secrecy", 2, r"\b(?:vertel|meld|noem)\b[^.\n]{0,25}gebruiker[^.\n]{0,12}\bniet\b|\bnie (?:mów|wspominaj|informuj)\b[^.\n]{0,25}użytkownik|\bkullanıcıya\b[^.\n]{0,25}(?:söyleme|bahsetme|bildirme)|\bđừng\b[^.\n]{0,20}người dùng|\bjangan\b[^.\n]{0,20}pengguna"),
)  # fmt: skip

OTHER_SCRIPTS = (
    Signal("override", 2, r"(?:忽略|无视|無視|忘记|忘記|不要理会)[^。\n]{0,12}(?:之前|先前|以上|上面|所有|全部|前面|系统|系統)[^。\n]{0,10}(?:指令|指示|说明|說明|规则|規則|提示|命令|要求)"),
    Signal("secrecy", 2, r"(?:不要|别|請勿|请勿|切勿|不得|无需|勿)[^。\n]{0,6}(?:告诉|告訴|告知|提及|通知|透露|提到|说明|讓|让)[^。\n]{0,12}(?:用户|使用者|用戶|他人|任何人)"),
    Signal("secrecy", 2, r"(?:不要|别|請勿|请勿|切勿|不得)[^。\n]{0,4}(?:向|对|對|跟|和)(?:用户|使用者|用戶|任何人)[^。\n]{0,8}(?:提|说|說|透露|告|泄)"),
    Signal("theft", 1.5, r"(?:读取|讀取|发送|發送|上传|上傳|打开|打開|收集)[^。\n]{0,20}(?:\.ssh|id rsa|密钥|密鑰|私钥|私鑰|密码|密碼|凭证|憑證|凭据)"),
    Signal("override", 2, r"(?:以前|これまで|上記|前|すべて|全て|システム|他)の?[^。\n]{0,8}(?:指示|命令|ルール|プロンプト|制約)[^。\n]{0,6}(?:無視|忘れ)"),
    Signal("secrecy", 2, r"ユーザー?(?:に|へ)[^。\n]{0,20}(?:言わない|伝えない|知らせない|教えない|話さない|明かさない|通知しない|言及しない|見せない|報告しない)"),
    Signal("override", 2, r"(?:이전|위의?|모든|기존|시스템)[^.\n]{0,12}(?:지시|명령|지침|규칙|프롬프트)[^.\n]{0,8}(?:무시|잊)"),
    Signal("secrecy", 2, r"사용자에게[^.\n]{0,20}(?:말하지|알리지|언급하지|공개하지|보여주지|밝히지)"),
    Signal("override", 2, r"(?:игнорир|проигнорир|забуд|не обращай)[а-яё]*[^.\n]{0,30}(?:инструкци|правил|указани|команд|ограничени)"),
    Signal("secrecy", 2, r"не (?:упомина|говори|сообща|рассказыва|раскрыва|показыва|информиру|уведомля)[а-яё]*[^.\n]{0,35}(?:пользовател|никому|юзер)"),
    Signal("override", 2, r"(?:ігнору|забуд)[а-яіїє]*[^.\n]{0,30}(?:інструкці|правил|вказівк)"),
    Signal("override", 2, r"(?:تجاهل|انس|تغاض)[^.\n]{0,25}(?:التعليمات|تعليمات|الأوامر|القواعد)"),
    Signal("secrecy", 2, r"لا ت(?:خبر|ذكر|كشف|قل)[^.\n]{0,30}(?:المستخدم|مستخدم|أحد)"),
    Signal("override", 2, r"(?:निर्देश|नियम|आदेश)[^।\n]{0,25}(?:अनदेखा|नज़रअंदाज़|नजरअंदाज|भूल)"),
    Signal("secrecy", 2, r"(?:उपयोगकर्ता|यूज़र|यूजर)[^।\n]{0,25}(?:मत बता|न बता|ना बता|नहीं बता|मत कह)"),
)  # fmt: skip

NAMES = (
    Signal("theft", 2, r"\b(?:contents? (?:from|of)|reading|read|from|of) (?:reading |file )*(?:the )?(?:ssh|id rsa|dot ?env|env file|etc passwd|aws cred|private key|system prompt|conversation|mcp json|credentials)"),
    Signal("theft", 1, r"^(?:(?:full|entire|complete|previous|whole|raw|all) )*(?:system prompt|conversation history|chat history|conversation context|chain of thought|user secrets?|previous messages|model reasoning)$"),
)  # fmt: skip

SAYS = {
    "secrecy": "tells the model to keep something from the person",
    "override": "tells the model to set other instructions aside",
    "role": "gives the model another role",
    "impersonation": "speaks to the model as if it were the system or the person",
    "theft": "tells the model to hand over what belongs to the person",
    "coercion": "orders the model about",
    "shadowing": "tells the model how to treat other tools",
    "execution": "tells the model to run something",
}
