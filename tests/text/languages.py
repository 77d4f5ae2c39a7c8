"""Sentences written for tests of the gate: what agents say about their work, in English and other languages."""

from random import Random

ENGLISH = (
    "The relay took the message and told every agent in the fleet that it had done so before noon.",
    "Nobody has to restart the worker by hand, because it comes back on its own after a crash.",
    "We measured the new index for a week and found that it answers twice as fast as the old one.",
    "Please send the report as an artifact and tell me its id when the upload is complete.",
    "If the claim token is lost, ask the publisher to release the task so that another worker can take it.",
    "Most of the errors last night came from a single host whose certificate had expired.",
    "Could somebody with access to the archive check whether the older files are still readable?",
    "The summary should fit on one page and name the three figures that changed the most.",
    "I have tried both settings on my machine, and the second one uses much less memory.",
    "Our planner hands out small pieces of work and collects the results in a shared session.",
    "It is not clear to me why the search returns an empty list for such a common word.",
    "After the update the board shows replies in the order in which they were written.",
)

FOREIGN = {
    "German": (
        "Der Server läuft wieder und alle Agenten haben die Nachricht von heute Morgen erhalten.",
        "Bitte schicken Sie mir den Bericht, sobald die Daten vollständig übertragen worden sind.",
        "Wir haben den neuen Index eine Woche lang gemessen und keinen einzigen Fehler gefunden.",
        "Wenn das Zertifikat abgelaufen ist, muss jemand ein neues bestellen und es einspielen.",
    ),
    "Spanish": (
        "El servidor funciona de nuevo y todos los agentes recibieron el mensaje de esta mañana.",
        "Por favor envíame el informe cuando los datos se hayan transferido por completo.",
        "Medimos el nuevo índice durante una semana y no encontramos ningún error en los archivos.",
        "Si el certificado ha caducado, alguien tiene que pedir otro y ponerlo en la máquina.",
    ),
    "French": (
        "Le serveur marche de nouveau et tous les agents ont reçu le message de ce matin.",
        "Envoyez-moi le rapport dès que les données auront été transférées en entier.",
        "Nous avons mesuré le nouvel index pendant une semaine sans trouver la moindre erreur.",
        "Si le certificat est périmé, il faut que quelqu'un en demande un autre et l'installe.",
    ),
    "Italian": (
        "Il server funziona di nuovo e tutti gli agenti hanno ricevuto il messaggio di stamattina.",
        "Mandami il rapporto appena i dati sono stati trasferiti completamente, per favore.",
        "Abbiamo misurato il nuovo indice per una settimana senza trovare nessun errore.",
        "Se il certificato è scaduto, qualcuno deve chiederne un altro e metterlo sulla macchina.",
    ),
    "Dutch": (
        "De server draait weer en alle agenten hebben het bericht van vanmorgen ontvangen.",
        "Stuur me het verslag zodra de gegevens volledig zijn overgedragen, alstublieft.",
        "We hebben de nieuwe index een week lang gemeten en geen enkele fout gevonden.",
        "Als het certificaat verlopen is, moet iemand een nieuw aanvragen en het plaatsen.",
    ),
    "Polish": (
        "Serwer znowu działa i wszyscy agenci otrzymali dzisiejszą poranną wiadomość.",
        "Proszę przysłać mi raport, gdy tylko wszystkie dane zostaną przesłane do końca.",
        "Przez tydzień mierzyliśmy nowy indeks i nie znaleźliśmy ani jednego błędu.",
        "Jeśli certyfikat wygasł, ktoś musi zamówić nowy i zainstalować go na maszynie.",
    ),
    "Turkish": (
        "Sunucu yeniden çalışıyor ve bütün ajanlar bu sabahki mesajı aldılar.",
        "Veriler tamamen aktarıldığında raporu bana gönderir misiniz lütfen?",
        "Yeni dizini bir hafta boyunca ölçtük ve tek bir hata bile bulamadık.",
        "Sertifikanın süresi dolduysa birinin yenisini isteyip makineye kurması gerekir.",
    ),
    "Swahili": (
        "Seva inafanya kazi tena na mawakala wote wamepokea ujumbe wa asubuhi ya leo.",
        "Tafadhali nitumie ripoti mara tu data zote zitakapokuwa zimehamishwa kabisa.",
        "Tulipima faharasa mpya kwa wiki moja na hatukupata kosa lolote katika faili.",
        "Ikiwa cheti kimeisha muda wake, mtu fulani lazima aombe kingine na kukiweka.",
    ),
    "Russian in Latin letters": (
        "Server snova rabotaet i vse agenty poluchili segodnyashnee utrennee soobshchenie.",
        "Prishlite mne pozhaluysta otchyot kak tolko vse dannye budut polnostyu peredany.",
        "My tseluyu nedelyu izmeryali novyy indeks i ne nashli ni odnoy oshibki v faylakh.",
        "Esli sertifikat istyok to komu nibud pridyotsya zakazat novyy i ustanovit ego.",
    ),
    "Chinese in Latin letters": (
        "Fuwuqi you kaishi yunxing le suoyou de daili dou shoudao le jintian zaoshang de xiaoxi.",
        "Qing zai shuju wanquan chuanshu zhihou ba baogao fa gei wo xiexie nimen de bangzhu.",
        "Women ba xin de suoyin celiang le yige xingqi meiyou faxian renhe cuowu.",
        "Ruguo zhengshu yijing guoqi jiu bixu you ren shenqing xin de bing anzhuang hao.",
    ),
}

SCRIPTS = {
    "Chinese": "新版本已经成功部署所有服务都正常运行",
    "Japanese": "サーバーは再起動され、すべてのエージェントがメッセージを受け取りました。",
    "Korean": "서버가 다시 작동하고 모든 에이전트가 메시지를 받았습니다. ",
    "Russian": "Сервер снова работает и все агенты получили сообщение. ",
    "Greek": "Ο διακομιστής λειτουργεί ξανά και όλοι οι πράκτορες έλαβαν το μήνυμα. ",
    "Arabic": "الخادم يعمل الآن وجميع الوكلاء استلموا الرسالة. ",
    "Hebrew": "השרת פועל שוב וכל הסוכנים קיבלו את ההודעה. ",
    "Hindi": "सर्वर फिर से चल रहा है और सभी एजेंटों को संदेश मिल गया है। ",
    "Thai": "เซิร์ฟเวอร์ทำงานอีกครั้งและตัวแทนทั้งหมดได้รับข้อความแล้ว ",
    "Georgian": "სერვერი ისევ მუშაობს და ყველა აგენტმა მიიღო შეტყობინება. ",
}


def english(size: int, choice: Random) -> str:
    """Return English of at least `size` characters."""
    return _of(ENGLISH, size, choice)


def foreign(language: str, size: int, choice: Random) -> str:
    """Return text in that language of at least `size` characters."""
    return _of(FOREIGN[language], size, choice)


def _of(sentences: tuple[str, ...], size: int, choice: Random) -> str:
    said: list[str] = []
    while size > 0:
        said.append(choice.choice(sentences))
        size -= len(said[-1]) + 1
    return " ".join(said) + " "
