"""The two signals that decide alone, secrecy and override, in languages other than English."""

from __future__ import annotations

from interlock.judge.signals.words import Signal

LATIN_SCRIPT = (
    Signal(
        "override",
        2,
        r"\b(?:oubli(?:e|ez)|ignor(?:e|ez)|laiss(?:e|ez) tomber)\b[^.\n]{0,12}\b(?:vos|"
        r"tes) (?:consignes|règles|instructions)",
    ),
    Signal(
        "override",
        2,
        r"\b(?:musst|sollst|müssen sie|sollen sie)\b[^.\n]{0,40}(?:regeln|anweisungen|vorgaben|"
        r"richtlinien)\w*[^.\n]{0,12}(?:ignorier|missacht|vergess|umgeh)",
    ),
    Signal("impersonation", 1, r"\bals ki\b|\ben tant qu'ia\b|\bcomo (?:una? )?ia\b"),
    Signal(
        "override",
        2,
        r"\b(?:ignor|olvid|desestim|omit|hag?z caso omiso)\w*[^.\n]{0,25}(?:instrucciones|reglas|órdenes|indicacione"
        r"s|directrices|restricciones)",
    ),
    Signal(
        "secrecy",
        2,
        r"\bno (?:le |se lo |lo |les |nos )?(?:mencion(?:es?|en|ar)|dig(?:as?|an)|deci?r|inform(?:es?|"
        r"en|ar)|revel(?:es?|en|"
        r"ar)|cuent(?:es?|en)|notifi(?:ques?|car)|muestr(?:es?|en))\b[^.\n]{0,30}(?:al? (?:los )?usuario|a nadie)",
    ),
    Signal(
        "override",
        2,
        r"\b(?:ignor|esque[cç]|desconsider|desrespeit)\w*[^.\n]{0,25}(?:instruções|regras|ordens|diretrizes)",
    ),
    Signal(
        "secrecy",
        2,
        r"\bnão (?:lhe |o |a )?(?:mencion(?:e|es|ar)|dig(?:a|as)|dizer|inform(?:e|es|ar)|revel(?:e|es|"
        r"ar)|cont(?:e|es|ar)|"
        r"avis(?:e|es|ar)|mostr(?:e|es|ar))\b[^.\n]{0,30}(?:usuário|utilizador|ninguém)",
    ),
    Signal(
        "override",
        2,
        r"\b(?:ignor|oubli|ne (?:tiens?|tenez) pas compte|faites abstraction)\w*[^.\n]{0,25}(?:instructions|"
        r"consignes|règles|directives)[^.\n]{0,15}(?:précédent|antérieur|ci dessus|système|sécurité|initial)",
    ),
    Signal(
        "secrecy",
        2,
        r"\bn[e'](?: le | l'|en )?\s?(?:mentionn|di[st]|inform|révél|signal|parl|préven|montr)\w*[^.\n]{0,35}(?:util"
        r"isateur|personne|usager)",
    ),
    Signal(
        "override",
        2,
        r"\b(?:ignorier|vergiss|vergessen sie|missachte)\w*[^.\n]{0,30}(?:anweisungen|regeln|vorgaben|instruktionen|"
        r"richtlinien|befehle)",
    ),
    Signal(
        "secrecy",
        2,
        r"\b(?:erwähn|sag|informier|verrat|teil|erzähl|zeig)\w*[^.\n]{0,40}(?:benutzer|nutzer|anwender)[^.\n]{0,25}\b"
        r"(?:nicht|nichts)\b|\b(?:benutzer|nutzer|anwender)\w*[^.\n]{0,20}\b(?:nicht|nichts|niemals)\b[^.\n]{0,20}(?"
        r":erwähn|sag|mit(?:zu)?teil|informier|verrat)|\b(?:nicht|niemals)\b[^.\n]{0,25}(?:benutzer|nutzer|anwender)"
        r"[^.\n]{0,20}(?:erwähn|sag|mitteil|informier|verrat)",
    ),
    Signal("override", 2, r"\b(?:ignor|dimentic|trascur)\w*[^.\n]{0,25}(?:istruzioni|regole|direttive|ordini)"),
    Signal(
        "secrecy",
        2,
        r"\bnon (?:menzionar|dir|informar|rivelar|comunicar|avvisar|mostrar|parlar|dica|informi|riveli|mostri)\w*"
        r"[^.\n]{0,30}(?:utente|nessuno)",
    ),
    Signal(
        "override",
        2,
        r"\bnegeer\b[^.\n]{0,25}(?:instructies|regels)|\b(?:zignoruj|zapomnij)\b[^.\n]{0,25}(?:instrukcj|polece|"
        r"zasad)|\bbỏ qua\b[^.\n]{0,25}(?:hướng dẫn|chỉ dẫn|lệnh|quy tắc)|\babaikan\b[^.\n]{0,25}(?:instruksi|"
        r"perintah|aturan)",
    ),
    Signal(
        "override",
        2,
        r"(?:önceki|tüm)[^.\n]{0,20}(?:talimat|kural|komut)[^.\n]{0,15}(?:yok say|unut|görmezden|dikkate alma)",
    ),
    Signal(
        "secrecy",
        2,
        r"\b(?:vertel|meld|noem)\b[^.\n]{0,25}gebruiker[^.\n]{0,12}\bniet\b|\bnie (?:mów|wspominaj|informuj)"
        r"\b[^.\n]{0,25}użytkownik|\bkullanıcıya\b[^.\n]{0,25}(?:söyleme|bahsetme|bildirme)|\bđừng\b[^.\n]{0,20}ngườ"
        r"i dùng|\bjangan\b[^.\n]{0,20}pengguna",
    ),
    Signal(
        "override",
        2,
        r"\b(?:ignorera|glöm|bortse från|ignorer|glem|se bort fra|unohda|älä huomioi|jätä huomiotta|"
        r"ohita)\b[^.\n]{0,30}"
        r"(?:instruktion|anvisning|regler|instruks|ohje|sään)",
    ),
    Signal(
        "override",
        2,
        r"\b(?:ignoruj|zapomeň|nedbej|ignoră|uită|nu ține cont|hagyd figyelmen|"
        r"felejtsd el)\w*[^.\n]{0,35}(?:pokyn|instruk|"
        r"pravid|instrucțiuni|reguli|utasítás|szabály)|\b(?:utasítás|"
        r"szabály)\w*[^.\n]{0,25}(?:figyelmen kívül|felejts)",
    ),
    Signal(
        "secrecy",
        2,
        r"\b(?:berätta inte|nämn inte|fortæl ikke|fortell ikke|nevn ikke|älä kerro|"
        r"älä mainitse)\b[^.\n]{0,30}(?:användare|"
        r"bruger|bruker|käyttäjä)|\b(?:neříkej|nezmiňuj|neinformuj|nu (?:spune|menționa|informa)|ne (?:mondd|említsd|"
        r"tájékoztasd))\w*[^.\n]{0,30}(?:uživatel|používateľ|utilizator|felhasználó)",
    ),
    Signal("override", 2, r"\b(?:lekceważ|pomiń|nie zważaj)\w*[^.\n]{0,25}(?:instrukcj|polece|zasad|wytyczn)"),
)

OTHER_SCRIPTS = (
    Signal(
        "override", 2, r"(?:ルール|指示|命令|制約|規則)を?(?:すべて|全て|全部)?(?:無視|忘れ)(?:して|ろ|せよ|しなさい)"
    ),
    Signal(
        "override", 2, r"(?:모든|전체)[^.\n]{0,8}(?:규칙|지침|명령|제한)[^.\n]{0,6}(?:무시하|잊)(?:고|세요|십시오|라)"
    ),
    Signal("override", 2, r"(?:αγνόησ|ξέχασ|παράβλεψ)[α-ωά-ώ]*[^.\n]{0,30}(?:οδηγί|κανόν|εντολ)"),
    Signal("secrecy", 2, r"μην (?:πεις|αναφέρεις|ενημερώσεις|αποκαλύψεις)[^.\n]{0,30}(?:χρήστη|κανέναν)"),
    Signal("override", 2, r"(?:התעלם|התעלמי|תתעלם|שכח)[^.\n]{0,25}(?:הוראות|ההוראות|הכללים|הנחיות|ההנחיות)"),
    Signal("secrecy", 2, r"(?:אל ת(?:ספר|גלה|אמר|זכיר|דווח)|לא לספר)[^.\n]{0,25}(?:משתמש|לאף אחד)"),
    Signal(
        "override",
        2,
        r"(?:نادیده بگیر|فراموش کن)[^.\n]{0,25}(?:دستور|قوانین)|(?:دستور|قوانین)[^.\n]{0,25}(?:نادیده|فراموش)",
    ),
    Signal("secrecy", 2, r"به کاربر[^.\n]{0,25}(?:نگو|نگویید|اطلاع نده)"),
    Signal("override", 2, r"(?:เพิกเฉย|ละเว้น|ลืม|ไม่ต้องสนใจ)[^\n]{0,25}(?:คำสั่ง|กฎ|คำแนะนำ)"),
    Signal("secrecy", 2, r"(?:อย่า|ห้าม)(?:บอก|แจ้ง|เปิดเผย)[^\n]{0,20}(?:ผู้ใช้|ใคร)"),
    Signal(
        "override",
        2,
        r"(?:নির্দেশ|নিয়ম)[^।\n]{0,25}(?:উপেক্ষা|ভুলে)|(?:உத்தரவு|வழிமுறை)[^.\n]{0,30}(?:புறக்கணி|மற)",
    ),
    Signal("secrecy", 2, r"не (?:кажи|повідомляй|згадуй|розповідай)[а-яіїє]*[^.\n]{0,30}(?:користувач|нікому)"),
    Signal("override", 2, r"(?:игнорирай|забрави)[а-я]*[^.\n]{0,30}(?:инструкци|правил|указани)"),
    Signal(
        "override",
        2,
        r"(?:忽略|无视|無視|忘记|忘記|不要理会)[^。\n]{0,12}(?:之前|先前|以上|上面|所有|全部|前面|系统|系統)[^。\n]{0,10}(?:指令|指示|说明|說明|规则|規則|"
        r"提示|命令|要求)",
    ),
    Signal(
        "secrecy",
        2,
        r"(?:不要|别|請勿|请勿|切勿|不得|无需|勿)[^。\n]{0,6}(?:告诉|告訴|告知|提及|通知|透露|提到|说明|讓|让)[^。\n]{0,12}(?:用户|使用者|用戶|他人|任何人)",
    ),
    Signal(
        "secrecy",
        2,
        r"(?:不要|别|請勿|请勿|切勿|不得)[^。\n]{0,4}(?:向|对|對|跟|和)(?:用户|使用者|用戶|任何人)[^。\n]{0,8}(?:提|说|說|透露|告|泄)",
    ),
    Signal(
        "theft",
        1.5,
        r"(?:读取|讀取|发送|發送|上传|上傳|打开|打開|收集)[^。\n]{0,20}(?:\.ssh|id rsa|密钥|密鑰"
        r"|私钥|私鑰|密码|密碼|凭证|憑證|凭据)",
    ),
    Signal(
        "override",
        2,
        r"(?:以前|これまで|上記|前|すべて|全て|システム|他)の?[^。\n]{0,8}(?:指示|命令|ルール|プロンプト|制約)[^。\n]{0,6}(?:無視|忘れ)",
    ),
    Signal(
        "secrecy",
        2,
        r"ユーザー?(?:に|へ)[^。\n]{0,20}(?:言わない|伝えない|知らせない|教えない|話さない|明かさない|通知しない|言及しない|見せない|報告しない)",
    ),
    Signal(
        "override",
        2,
        r"(?:이전|위의?|모든|기존|시스템)[^.\n]{0,12}(?:지시|명령|지침|규칙|프롬프트)[^.\n]{0,8}(?:무시|잊)",
    ),
    Signal("secrecy", 2, r"사용자에게[^.\n]{0,20}(?:말하지|알리지|언급하지|공개하지|보여주지|밝히지)"),
    Signal(
        "override",
        2,
        r"(?:игнорир|проигнорир|забуд|не обращай)[а-яё]*[^.\n]{0,30}(?:инструкци|правил|указани|команд|ограничени)",
    ),
    Signal(
        "secrecy",
        2,
        r"не (?:упомина|говори|сообща|рассказыва|раскрыва|показыва|информиру|уведомля)[а-яё]*[^.\n]{0,35}(?:пользова"
        r"тел|никому|юзер)",
    ),
    Signal("override", 2, r"(?:ігнору|забуд)[а-яіїє]*[^.\n]{0,30}(?:інструкці|правил|вказівк)"),
    Signal("override", 2, r"(?:تجاهل|انس|تغاض)[^.\n]{0,25}(?:التعليمات|تعليمات|الأوامر|القواعد)"),
    Signal("secrecy", 2, r"لا ت(?:خبر|ذكر|كشف|قل)[^.\n]{0,30}(?:المستخدم|مستخدم|أحد)"),
    Signal("override", 2, r"(?:निर्देश|नियम|आदेश)[^।\n]{0,25}(?:अनदेखा|नज़रअंदाज़|नजरअंदाज|भूल)"),
    Signal("secrecy", 2, r"(?:उपयोगकर्ता|यूज़र|यूजर)[^।\n]{0,25}(?:मत बता|न बता|ना बता|नहीं बता|मत कह)"),
)
