"""Signs in other languages than English that a text's writer was told the answer; see :mod:`rewards.leaks.vocabulary`.

German, French, Spanish, Portuguese, Italian, Russian, Chinese, Japanese and Korean.
"""

_DE = r"(?:antwort|lösung)"
_FR = r"(?:réponse|solution|résultat)"
_ES = r"(?:respuesta|solución|resultado)"

ANYWHERE = (
    # German
    rf"\b(?:vorgegebene|gegebene|angegebene|bekannte|erwartete|genannte|mitgeteilte|hinterlegte|offizielle)[nrs]? "
    rf"(?:richtige[nrs]? )?(?:{_DE}|ergebnis)\b",
    r"\b(?:muster|referenz|standard)(?:lösung|antwort)|\blösungs(?:schlüssel|blatt|buch)",
    rf"\b(?:laut|gemäß|nach) (?:der |dem )?(?:richtigen |vorgabe|{_DE})(?! der gleichung)",
    r"\b(?:da|weil|wenn) (?:die|das|es)\b[^.]{0,40}◆ (?:ist|lautet|sein muss|sein soll|ergeben muss|herauskommen)",
    rf"\b{_DE} [^.]{{0,30}}\b(?:vorgegeben|bereits bekannt|schon bekannt|mitgeteilt|steht (?:schon |bereits )?fest)\b",
    rf"\b(?:wir wissen|ich weiß|bekannt ist)\b[^.]{{0,30}}(?:{_DE}|◆)",
    rf"\b(?:mir|uns) (?:wurde|ist)\b[^.]{{0,40}}(?:{_DE}|◆)",
    rf"\b(?:wie|so wie) (?:angegeben|vorgegeben|erwartet|mitgeteilt|in der {_DE})\b[^.]{{0,40}}◆",
    r"\b(?:in|mit) der (?:richtigen |vorgegebenen )?(?:antwort|lösung) (?:steht|angegeben|genannt|überein)",
    # French
    rf"\bla (?:bonne )?{_FR} (?:correcte )?(?:donnée|fournie|attendue|connue|indiquée|proposée|officielle)\b",
    rf"\b(?:puisque|comme|sachant que|étant donné que|vu que)\b[^.]{{0,30}}\b{_FR} (?:correcte )?(?:est|doit être)\b",
    rf"\b(?:d['’]après|selon|suivant) (?:la |le )?(?:bonne )?(?:{_FR}(?! de l)|corrigé|énoncé de la réponse)",
    rf"\b(?:on sait|nous savons|je sais)(?: déjà)? que (?:la |le )?(?:bonne )?(?:{_FR}|résultat)\b",
    r"\b(?:puisque|comme) [^.]{0,30}(?:doit|doivent) (?:être|valoir|donner) ◆|\bon (?:m['’]a|nous a) (?:dit|donné"
    r"|indiqué)\b",
    rf"\b(?:comme|ainsi que) (?:indiqué|donné|prévu|fourni|attendu|mentionné)\b[^.]{{0,20}}(?:{_FR}|énoncé|◆)",
    # Spanish, Portuguese, Italian
    rf"\bcomo (?:se )?(?:indica|indicado|dice|dado|esperado)\b[^.]{{0,20}}(?:{_ES}|clave|◆)|\bla {_ES} (?:\w+ )?dice\b",
    rf"\b(?:la|una) {_ES} (?:correcta )?(?:que (?:nos|me) (?:dan|dieron|dijeron|han (?:dado|dicho|proporcionado"
    r"|facilitado))|dada|proporcionada|esperada|conocida|indicada|oficial)\b",
    rf"\b(?:nos|me) (?:dan|dieron|dicen|dijeron|han dicho) (?:que )?(?:la )?{_ES}\b",
    rf"\b(?:como|puesto que|ya que|dado que|sabiendo que|porque) (?:la {_ES} (?:correcta )?(?:es|debe ser)"
    r"|[^.]{0,30}(?:debe|tiene que) (?:ser|dar) ◆)",
    rf"\b(?:según|conforme a) (?:la |el )?(?:clave|{_ES}(?! de la ecuación)|solucionario)",
    rf"\b(?:sabemos|sé|se sabe)(?: ya)? que (?:la |el )?(?:{_ES}|resultado)\b",
    r"\b[ao] (?:resposta|gabarito) (?:correta )?(?:fornecid|dad|esperad|indicad|conhecid|já)|\bsegundo [ao] (?:gabarito"
    r"|resposta)",
    r"\b(?:como|já que|dado que|sabendo que|porque|visto que) a resposta (?:correta )?(?:é|deve ser)\b",
    r"\bla risposta (?:corretta )?(?:data|fornita|attesa|nota|indicata)\b|\b(?:poiché|dato che|siccome|sapendo"
    r" che) la risposta (?:corretta )?è\b|\bsecondo la (?:soluzione|risposta)\b",
    # Russian
    r"\b(?:нам|мне) (?:дан|известен|сообщили|сказали|дали)\w*\b[^.]{0,30}\bответ|\b(?:данн|заданн|известн|указанн"
    r"|эталонн)\w+ (?:правильн\w+ )?ответ",
    r"\b(?:так как|поскольку|зная,? что|известно,? что|согласно) (?:правильн\w+ )?ответ",
    # Chinese, Japanese, Korean
    r"(?:已知|已给)(?:的|了)?(?:正确|标准)?答案|(?:给出|给定|提供|告知|告诉我们?|所给|题目给)(?:出)?的?(?:正确|标准)?答案|(?:标准|参考)答案",
    r"(?:因为|既然|由于|根据|按照|依据)(?:正确)?(?:答案|结果)(?!选项)|答案已(?:经)?(?:给出|知|给定)|(?:知道|得知)(?:正确)?答案",
    r"(?:与|和|跟)(?:正确|给出的)?答案[^。]{0,4}(?:一致|相符|吻合|相同)",
    r"(?:结果|答案)(?:必须|应该|应当|应|需要)(?:是|为|等于) ?◆,",
    r"答案(?:给|说|显示|提示|表明|写|要求|里|中)(?:的|出|了)?(?:是)?|(?:提示|告诉|说明|给出|告知|表明)(?:的|了|说)?[^。,]{0,4}答案|(?:被告知|提示(?:说|是|为)|按(?:照)?要求)[^。]{0,12}◆",
    r"(?:正解|答え|解答)[はが][^。]{0,20}(?:与えられ|わかって|分かって|既に|すでに|決まって|とされて)|与えられた(?:答え|正解|解答)|(?:正解"
    r"|答え)[はが][^。]{1,12}(?:なので|だから|であるため)|(?:正解|答え|模範解答)に(?:よると|よれば)",
    r"(?:주어진|제공된|알려진) (?:정답|답)|(?:정답|답)[이은는가] [^.]{1,20}(?:이므로|주어|알려)"
    r"|(?:정답|답)에 (?:따르면|의하면)",
)

OPENING = (
    rf"^(?:die )?(?:richtige |korrekte )?(?:{_DE})(?: ist| lautet|:)? ◆",
    rf"^(?:die )?(?:{_DE}|option)? ?◆ ist (?:die )?(?:richtig|korrekt)",
    r"^(?:es|das|der|die)\b[^.,=]{0,30} ?(?:muss|müssen|soll|sollen|sollte)\b[^.,=]{0,20}◆",
    r"^(?:il faut|on doit|nous devons|il doit|il devrait)\b[^.,=]{0,30}◆|^(?:l['’]option |la réponse )?◆ est"
    r" (?:correcte|juste|la bonne)",
    r"^(?:hay que|debemos|tenemos que|debe|deben|tiene que)\b[^.,=]{0,30}◆|^(?:la opción |la respuesta )?◆ es (?:la"
    r" )?correct",
    rf"^(?:la )?(?:bonne )?{_FR} (?:correcte )?(?:est|:) (?:l['’]option )?◆",
    rf"^(?:la )?{_ES} (?:correcta )?(?:es|:) (?:la opción )?◆",
    r"^(?:a resposta (?:correta )?é|la risposta (?:corretta )?è|правильный ответ|ответ)\W{1,4}◆",
    r"^(?:正确|最终)?(?:答案|结果)(?:应该|应)?(?:是|为|:|:|选) ?◆|^(?:应)?选(?:择)? ?◆"
    r"|^(?:应该)?选?(?:项)? ?◆(?:是)?(?:正确|对)的?"
    r"|^为了(?:得到"
    r"|凑成?|使|达到)[^。]{0,8}◆|^(?:正解|答え)は ?◆|^(?:정답|답)은 ?◆",
)
