"""Programs that try to get out of the sandbox, by what they attack. Each prints ESCAPED where it got what it wanted.

PRELUDE is run before each, in the same call. ``CANARY`` is a file of the host, which is not in the sandbox.
"""

PRELUDE = r"""
import ctypes, errno, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def escaped(what): print("ESCAPED", what, flush=True)
def call(number, *arguments):
    "A system call of x86-64: its result, or minus the error."
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return -ctypes.get_errno() if result < 0 else result
def must_fail(what, act):
    try:
        result = act()
    except BaseException as error:
        print("refused", what, type(error).__name__)
    else:
        escaped(f"{what}: {result!r}"[:200])
def must_be_refused(what, result):
    (print if result < 0 else escaped)(f"{what}: {result}")
CANARY = "@CANARY@"
"""

FILES = {
    "read a file of the host": "must_fail('read', lambda: open(CANARY).read())",
    "read passwords": "for f in ('/etc/passwd','/etc/shadow','/etc/hostname'): must_fail(f, lambda: open(f).read())",
    "read root's home": "must_fail('home', lambda: os.listdir('/root/.ssh')); must_fail('hist', lambda: open('/root/.bash_history').read())",
    "list homes": "must_fail('home', lambda: [n for n in os.listdir('/home')])",
    "write beside the interpreter": "must_fail('w', lambda: open(os.__file__, 'a')); must_fail('n', lambda: open(os.path.dirname(os.__file__) + '/planted.py', 'w'))",
    "write to installed packages": "import numpy; must_fail('w', lambda: open(numpy.__file__, 'a')); must_fail('n', lambda: open(os.path.dirname(numpy.__file__) + '/planted.py', 'w'))",
    "write to the sandbox's own code": "must_fail('w', lambda: open('/sandbox/inside/supervisor.py', 'a')); must_fail('r', lambda: os.rename('/sandbox/inside', '/sandbox/x'))",
    "write to the root folder": "must_fail('/', lambda: open('/planted', 'w')); must_fail('d', lambda: os.mkdir('/planted'))",
    "write to /usr, /lib, /etc, /dev": "for d in ('/usr/lib','/lib','/etc','/dev','/sandbox'): must_fail(d, lambda: open(d + '/planted', 'w'))",
    "follow a link out": "os.symlink(CANARY, 'link'); must_fail('link', lambda: open('link').read()); os.unlink('link')",
    "link to a file of the system": "must_fail('hard link', lambda: os.link(os.__file__, 'copy.py'))",
    "go above the root": "must_fail('up', lambda: open('/../../../../' + CANARY).read())",
    "leave by a descriptor of a folder": "d = os.open('/', os.O_RDONLY | os.O_DIRECTORY); must_fail('at', lambda: os.open('../' + CANARY.lstrip('/'), os.O_RDONLY, dir_fd=d))",
    "leave by the root of another process": "for p in (1, 2, os.getpid()): must_fail(p, lambda: open(f'/proc/{p}/root{CANARY}').read())",
    "leave by a folder of another process": "for p in (1, 2): must_fail(p, lambda: os.listdir(f'/proc/{p}/cwd'))",
    "open by handle": "must_be_refused('open_by_handle_at', call(304, -100, b'\\0' * 64, 0)); must_be_refused('name_to_handle_at', call(303, -100, b'/tmp', b'\\x80\\0\\0\\0' + b'\\0' * 200, ctypes.byref(ctypes.c_int()), 0))",
    "device files": "for kind, dev in (('mem', (1,1)), ('sda', (8,0)), ('vda', (254,0))): must_fail(kind, lambda: os.mknod(kind, 0o600 | 0o020000, os.makedev(*dev)))",
    "disks and memory of the host": "for f in ('/dev/mem','/dev/kmem','/dev/port','/dev/sda','/dev/vda','/dev/kmsg','/dev/fuse','/dev/kvm','/dev/tty','/dev/shm','/dev/ptmx'): must_fail(f, lambda: os.open(f, os.O_RDWR))",
    "a pipe for the host to read": "must_fail('fifo', lambda: os.mkfifo('input_image.png'))",
    "change owners": "open('f','w').close(); must_fail('chown', lambda: os.chown('f', 0, 0)); os.unlink('f')",
    "a program that runs as root": "open('s','w').close(); os.chmod('s', 0o4777); must_fail('exec', lambda: os.execv('/tmp/s', ['s']))",
    "change the root": "must_fail('chroot', lambda: os.chroot('/tmp')); must_be_refused('pivot_root', call(155, b'/tmp', b'/tmp'))",
}
MOUNTS = {
    "mount": "must_be_refused('mount', call(165, b'none', b'/tmp', b'tmpfs', 0, 0)); must_be_refused('proc', call(165, b'none', b'/tmp', b'proc', 0, 0))",
    "unmount": "for p in (b'/tmp', b'/proc', b'/', b'/usr'): must_be_refused('umount', call(166, p, 2))",
    "mount anew": "must_be_refused('fsopen', call(430, b'tmpfs', 0)); must_be_refused('open_tree', call(428, -100, b'/', 1)); must_be_refused('move_mount', call(429, 0, b'', 0, b'', 0)); must_be_refused('mount_setattr', call(442, -100, b'/', 0, b'\\0'*32, 32))",
    "write to read-only mounts": "must_be_refused('remount', call(165, b'none', b'/', b'', 32 | 4096, 0))",
    "namespaces": "[must_be_refused(hex(f), call(272, f)) for f in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x4000000, 0x8000000, 0x2000000, 0x80)]",
    "namespaces by clone": "[must_be_refused(hex(f), call(56, f | 17, 0, 0, 0, 0)) for f in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x4000000, 0x8000000, 0x2000000)]",
    "clone3": "must_be_refused('clone3', call(435, b'\\0' * 88, 88))",
    "enter a namespace": "must_be_refused('setns', call(308, 0, 0)); [must_fail(n, lambda: os.open(f'/proc/1/ns/{n}', os.O_RDONLY)) for n in ('mnt','net','pid','user')]",
}
NETWORK = {
    "sockets of every family": "import socket\nfor family in range(46):\n    for kind in (1, 2, 3, 5):\n        if call(41, family, kind, 0) >= 0: escaped((family, kind))",
    "connect to the host": "import socket; must_fail('tcp', lambda: socket.create_connection(('127.0.0.1', @PORT@), 2))",
    "connect elsewhere": "import socket; must_fail('tcp', lambda: socket.create_connection(('1.1.1.1', 53), 2)); must_fail('udp', lambda: socket.socket(2, 2).sendto(b'x', ('1.1.1.1', 53)))",
    "names": "import socket; must_fail('dns', lambda: socket.getaddrinfo('example.com', 80))",
    "over HTTP": "import urllib.request; must_fail('http', lambda: urllib.request.urlopen('http://127.0.0.1:@PORT@/', timeout=2).read())",
    "interfaces": "import socket; names = [n for _, n in socket.if_nameindex()] if False else []; must_fail('names', lambda: socket.if_nameindex())",
    "sockets of the host by path": "import socket; must_fail('unix', lambda: socket.socket(socket.AF_UNIX).connect('/run/dbus/system_bus_socket'))",
    "abstract sockets": "import socket\ndef act():\n    a, b = socket.socketpair(); a.connect('\\0x')\nmust_fail('abstract', act)",
    "pairs of other families": "[must_be_refused(f, call(53, f, 1, 0, ctypes.byref((ctypes.c_int * 2)()))) for f in (2, 10, 16, 30, 40)]",
    "raw packets and vsock": "import socket\nfor f, k in ((17, 3), (16, 3), (40, 1), (44, 3)): must_fail(f, lambda: socket.socket(f, k))",
}
PROCESSES = {
    "signal the parent": "must_fail('kill', lambda: os.kill(os.getppid(), 9))",
    "signal everyone": "import signal; must_fail('all', lambda: os.kill(-1, 9)); must_fail('group', lambda: os.killpg(0, 9)); [must_fail(p, lambda: os.kill(p, 9)) for p in range(1, 60) if p != os.getpid()]",
    "signal threads": "[must_be_refused(p, call(234, p, p, 9)) for p in range(1, 60) if p != os.getpid()]; [must_be_refused(p, call(200, p, 9)) for p in range(1, 60) if p != os.getpid()]",
    "queued signals": "[must_be_refused(p, call(129, p, 9, b'\\0' * 128)) for p in range(1, 40)]",
    "signal by descriptor": "[must_be_refused('pidfd', call(434, p, 0)) for p in (1, 2, os.getpid())]; must_be_refused('send', call(424, 3, 9, 0, 0))",
    "signal by owner of a file": "import fcntl; r, w = os.pipe(); must_fail('own', lambda: fcntl.fcntl(r, 8, os.getppid())); must_fail('sig', lambda: fcntl.fcntl(r, 10, 9)); must_fail('ex', lambda: fcntl.fcntl(r, 15, b'\\0'*8))",
    "signal by owner, by ioctl": "import fcntl, struct; r, w = os.pipe(); must_fail('FIOSETOWN', lambda: fcntl.ioctl(r, 0x8901, struct.pack('i', 2))); must_fail('SIOCSPGRP', lambda: fcntl.ioctl(r, 0x8902, struct.pack('i', 2)))",
    "high bits of arguments": "r, w = os.pipe(); must_be_refused('fcntl', call(72, r, 8 | 1 << 40, 2)); must_be_refused('prctl', call(157, 4 | 1 << 40, 1, 0, 0, 0))",
    "trace": "[must_be_refused(p, call(101, 16, p, 0, 0)) for p in range(1, 40)]; must_be_refused('me', call(101, 0, 0, 0, 0))",
    "read others' memory": "b = ctypes.create_string_buffer(64)\nfor p in range(1, 40):\n    must_be_refused('vm', call(310, p, b, 1, b, 1, 0)); must_be_refused('vm', call(311, p, b, 1, b, 1, 0))\n    must_fail(p, lambda: open(f'/proc/{p}/mem', 'rb')) ",
    "others in /proc": "for p in (1, 2, 3, os.getppid()):\n    for f in ('environ', 'maps', 'mem', 'fd', 'cmdline', 'auxv', 'stack', 'cwd', 'exe'): must_fail((p, f), lambda: os.listdir(f'/proc/{p}/{f}') if f == 'fd' else open(f'/proc/{p}/{f}', 'rb').read(10))",
    "own descriptors in /proc": "must_fail('fd', lambda: os.listdir('/proc/self/fd')); must_fail('others', lambda: open(f'/proc/{os.getppid()}/fd/1', 'w'))",
    "compare and steal descriptors": "must_be_refused('kcmp', call(312, os.getpid(), 2, 0, 0, 0)); must_be_refused('pidfd_getfd', call(438, 3, 0, 0))",
    "run programs": "import subprocess\nfor c in (['/bin/sh', '-c', 'id'], ['/usr/bin/id'], [sys.executable, '-c', '1'], ['/lib64/ld-linux-x86-64.so.2', '--version']): must_fail(c[0], lambda: subprocess.run(c, check=True))\nif os.system('true') == 0: escaped('system')",
    "run a program of its own": "open('p', 'wb').write(b'#!/bin/sh\\ntrue\\n'); os.chmod('p', 0o755); must_fail('exec', lambda: os.execv('/tmp/p', ['p']))",
    "run a program from memory": "must_be_refused('memfd', call(319, b'x', 0)); must_be_refused('execveat', call(322, 0, b'', 0, 0, 0x1000))",
    "become root": "for act in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0), lambda: os.setgroups([0])): must_fail('id', act)",
    "capabilities": "must_be_refused('capset', call(126, b'\\x26\\x05\\x08\\x19\\0\\0\\0\\0', b'\\xff' * 24)); must_be_refused('bounds', call(157, 24, 0, 0, 0, 0)); must_be_refused('keep', call(157, 8, 1, 0, 0, 0))",
    "make its memory readable": "must_be_refused('dumpable', call(157, 4, 1, 0, 0, 0)); must_be_refused('ptracer', call(157, 0x59616d61, -1, 0, 0, 0))",
    "raise its limits": "import resource\nmust_fail('nproc', lambda: resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999))); must_fail('as', lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1))); must_be_refused('other', call(302, 2, 7, 0, ctypes.create_string_buffer(16)))",
    "priorities": "must_fail('nice', lambda: os.nice(-5)); must_fail('sched', lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))); must_be_refused('ioprio', call(251, 1, 0, 0x2000))",
    "another filter": "must_be_refused('seccomp', call(317, 1, 0, b'\\0' * 16)); must_be_refused('prctl', call(157, 22, 2, b'\\0' * 16, 0, 0))",
    "another system call table": "code = b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3'  # int 0x80: getpid of 32 bits\nimport mmap; m = mmap.mmap(-1, 4096, prot=7); m.write(code)\nf = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\nif f() >= 0: escaped('32 bits')",
    "x32 system calls": "must_be_refused('x32', call(0x40000000 | 39))",
}
KERNEL = {
    "io_uring": "must_be_refused('setup', call(425, 8, b'\\0' * 120)); must_be_refused('enter', call(426, 3, 1, 0, 0, 0)); must_be_refused('register', call(427, 3, 0, 0, 0))",
    "userfaultfd": "must_be_refused('userfaultfd', call(323, 0)); must_be_refused('user only', call(323, 1))",
    "bpf": "must_be_refused('bpf', call(321, 0, b'\\0' * 64, 64)); must_be_refused('prog', call(321, 5, b'\\0' * 64, 64))",
    "perf": "must_be_refused('perf', call(298, b'\\0' * 128, 0, -1, -1, 0))",
    "keyrings": "must_be_refused('add_key', call(248, b'user', b'x', b'y', 1, -3)); must_be_refused('request', call(249, b'user', b'x', 0, 0)); must_be_refused('keyctl', call(250, 0, -3, 0, 0, 0))",
    "modules": "must_be_refused('init_module', call(175, b'', 0, b'')); must_be_refused('finit', call(313, 0, b'', 0)); must_be_refused('kexec', call(246, 0, 0, 0, 0)); must_be_refused('delete', call(176, b'x', 0))",
    "clocks, names, swap, reboot": "must_be_refused('settime', call(227, 0, b'\\0' * 16)); must_be_refused('adjtimex', call(159, b'\\0' * 208)); must_be_refused('sethostname', call(170, b'x', 1)); must_be_refused('swapon', call(167, b'/tmp', 0)); must_be_refused('reboot', call(169, 0xfee1dead, 672274793, 0, 0)); must_be_refused('syslog', call(103, 3, ctypes.create_string_buffer(10), 10)); must_be_refused('acct', call(163, 0)); must_be_refused('quota', call(179, 0, 0, 0, 0))",
    "shared memory of the system": "must_be_refused('shmget', call(29, 1234, 4096, 0o1666)); must_be_refused('semget', call(64, 1, 1, 0o1666)); must_be_refused('msgget', call(68, 1, 0o1666))",
    "queues": "must_be_refused('mq_open', call(240, b'x', 0o102, 0o600, 0))",
    "watch files": "must_be_refused('fanotify', call(300, 0, 0)); must_be_refused('inotify', call(294, 0))",
    "memory policy and hidden memory": "must_be_refused('move_pages', call(279, 2, 0, 0, 0, 0, 0)); must_be_refused('migrate', call(256, 2, 0, 0, 0)); must_be_refused('secretmem', call(447, 0)); must_be_refused('process_madvise', call(440, 3, 0, 0, 0, 0))",
    "personality": "must_be_refused('personality', call(135, 0x0400000))",
    "landlock and lsm": "must_be_refused('landlock', call(444, b'\\xff' * 8, 8, 0)); must_be_refused('lsm', call(461, b'\\0' * 64, b'\\x40\\0\\0\\0', 0))",
    "settings of the kernel": "for f in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/sys/kernel/hostname', '/proc/self/oom_score_adj', '/proc/kcore', '/proc/kallsyms', '/proc/keys'): must_fail(f, lambda: open(f, 'r+b'))",
    "what /proc and /sys tell": "for f in ('/proc/mounts', '/proc/self/mountinfo', '/proc/version', '/proc/cmdline', '/proc/net/tcp', '/sys/class/net', '/sys/fs/cgroup'): must_fail(f, lambda: os.listdir(f) if os.path.isdir(f) else open(f).read())",
    "terminal input": "import fcntl, termios; [must_fail(fd, lambda: fcntl.ioctl(fd, termios.TIOCSTI, b'x')) for fd in (0, 1, 2)]; must_fail('tiocsctty', lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)); must_fail('linux', lambda: fcntl.ioctl(0, 0x541C, b'\\3'))",
    "capture the screen of another": "must_fail('vcs', lambda: open('/dev/vcs', 'rb'))",
}
EXHAUSTION = {
    "fork bomb": "while True:\n    try: os.fork()\n    except OSError: pass",
    "fork bomb that hides": "while True:\n    try:\n        if os.fork() == 0: os.setsid()\n        if os.fork(): os._exit(0)\n    except OSError: pass",
    "thread bomb": "import threading\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(99,)).start()\n    except RuntimeError: pass",
    "memory": "held = []\nwhile True: held.append(bytearray(1 << 24))",
    "memory, errors ignored": "held = []\nwhile True:\n    try: held.append(bytearray(1 << 24))\n    except MemoryError: time.sleep(.001)",
    "memory of many processes": "for _ in range(20):\n    if os.fork() == 0: break\nheld = []\nwhile True:\n    try: held.append(bytearray(1 << 22))\n    except MemoryError: pass",
    "shared memory": "import mmap; held = []\nwhile True:\n    m = mmap.mmap(-1, 1 << 26); m[::4096] = b'x' * len(m[::4096]); held.append(m)",
    "memory in one request": "import numpy; a = numpy.ones(1 << 40)",
    "disk": "n = 0\nwhile True:\n    open(f'fill{n}', 'wb').write(b'x' * (1 << 22)); n += 1",
    "disk, errors ignored": "n = 0\nwhile True:\n    try: open(f'fill{n}', 'wb').write(b'x' * (1 << 22))\n    except OSError: pass\n    n += 1",
    "one huge file": "f = open('big', 'wb')\nwhile True: f.write(b'x' * (1 << 22)); f.flush()",
    "sparse file": "f = open('sparse', 'wb'); f.truncate(1 << 50)",
    "many files": "n = 0\nwhile True: open(f'n{n}', 'w').close(); n += 1",
    "many folders": "n = 0\nwhile True: os.mkdir(f'd{n}'); n += 1",
    "deep folders": "while True: os.mkdir('d'); os.chdir('d')",
    "descriptors": "held = []\nwhile True: held.append(os.open('/dev/null', os.O_RDONLY))",
    "pipes that hold data": "while True:\n    r, w = os.pipe(); os.set_blocking(w, False); os.write(w, b'x' * 65536)",
    "a loop in C": "sum(range(1 << 60))",
    "a loop in a pattern": "import re; re.match('(a+)+$', 'a' * 64 + 'b')",
    "a large power": "9 ** 9 ** 9",
    "a loop that ignores errors": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "sleep": "time.sleep(10 ** 6)",
    "wait for a signal": "import signal; signal.pause()",
    "output": "while True: print('x' * 10000)",
    "output of C": "b = b'x' * (1 << 20)\nwhile True: os.write(1, b); os.write(2, b)",
    "deep recursion": "sys.setrecursionlimit(10 ** 9)\ndef f(): return f()\nf()",
    "deep code": "eval('(' * 100000 + ')' * 100000)",
    "a signal's handler in a loop": "import signal\nsignal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, .001, .001)\nwhile True: pass",
    "block all signals": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(10 ** 6)",
    "an enormous image": "import numpy; display(numpy.zeros((60000, 60000), numpy.uint8))",
    "thousands of images": "import numpy\nfor n in range(5000): display(numpy.full((64, 64), n % 251, numpy.uint8))",
    "an enormous string": "print('x' * (1 << 33))",
    "a traceback without end": "class E(Exception):\n    def __str__(self): return 'x' * (1 << 28)\nraise E",
    "an error that never prints": "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
}
ENDINGS = {
    "end the process": "os._exit(0)",
    "abort": "os.abort()",
    "a bad address": "ctypes.string_at(1)",
    "end by a signal": "import signal; must_fail('raise', lambda: signal.raise_signal(9))",
    "close all descriptors": "os.closerange(0, 256)",
    "close the streams": "sys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
    "a child that outlives": "if os.fork() == 0:\n    os.setsid()\n    while True: time.sleep(.01)",
    "a child that prints later": "if os.fork() == 0:\n    time.sleep(1); print('ESCAPED later', flush=True); os._exit(0)",
    "a thread that outlives": "import threading\ndef f():\n    while True: time.sleep(.01)\nthreading.Thread(target=f, daemon=True).start()",
    "a timer that outlives": "import signal; signal.signal(signal.SIGALRM, lambda *_: os._exit(9)); signal.alarm(1)",
    "end at exit": "import atexit; atexit.register(lambda: time.sleep(10 ** 6))",
    "replace what ends": "os._exit = sys.exit = lambda *_: None",
}
IMAGES = {
    "a pickle as an image": "open('x.png', 'wb').write(b'\\x80\\x04\\x95cposix\\nsystem\\n(S\"id\"\\ntR.')",
    "a bomb as an image": "import zlib, struct\ndef chunk(k, d): return struct.pack('!I', len(d)) + k + d + struct.pack('!I', zlib.crc32(k + d))\nopen('x.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('!IIBBBBB', 60000, 60000, 8, 0, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(b'\\0' * 60001 * 100)) + chunk(b'IEND', b''))",
    "an image that is a link": "os.symlink(CANARY, 'x.png'); os.symlink('/proc/self/mem', 'y.png')",
    "an image that never ends": "os.symlink('/dev/zero', 'x.png')",
    "a name that is no text": "open(b'\\xff\\xfe.png', 'wb').write(b'x'); open('a\\nb.png', 'wb').write(b'x')",
    "sizes that lie": "from inside import holder\nholder.figures.Shown.images = property(lambda s: [(10 ** 9, 10 ** 9, b'x')], lambda s, v: None)\ndisplay(input_image)",
    "a subclass of an image": "from PIL import Image\nclass I(Image.Image):\n    def convert(self, *_, **__): return self\n    def tobytes(self, *_, **__): return b'x' * 7\n    width = height = 2 ** 31\ndisplay(I())",
}
TAMPERING = {
    "forge an answer": "import socket, struct, json\nh = json.dumps({'status': 'ok', 'error': '', 'sizes': [], 'left_out': 0, 'parts': []}).encode()\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack('!I', len(h)) + h)\n    except OSError: pass\ntime.sleep(99)",
    "forge a length": "import struct\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack('!I', 2 ** 32 - 1) + b'x' * 100)\n    except OSError: pass\ntime.sleep(99)",
    "forge huge parts": "import struct, json\nh = json.dumps({'status': 'ok', 'parts': [2 ** 62]}).encode()\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack('!I', len(h)) + h)\n    except OSError: pass\ntime.sleep(99)",
    "forge a nested header": "import struct\nh = b'[' * 500000\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack('!I', len(h)) + h)\n    except OSError: pass\ntime.sleep(99)",
    "answer a status of its own": "from inside import holder\nholder._ended = lambda act: ('fine', 'x')",
    "do not fork any more": "from inside import holder\nholder._is_fork = lambda: True",
    "never answer again": "from inside import holder\nholder.receive = lambda *_: time.sleep(10 ** 6)",
    "write to the supervisor's end of a pipe": "for fd in range(0, 64):\n    if fd not in (1, 2):\n        try: os.write(fd, b'ESCAPED?'[:0])\n        except OSError: pass",
    "descriptors of the host": "found = []\nfor fd in range(3, 256):\n    try: found.append((fd, os.fstat(fd).st_mode))\n    except OSError: pass\nif len(found) > 1: escaped(found)",
    "environment": "bad = [k for k in os.environ if 'KEY' in k or 'TOKEN' in k or 'SECRET' in k]\nif bad or 'GT_CANARY' in os.environ: escaped(bad)",
    "find secrets in memory": "import gc\nif any('CANARY-SECRET-' + 'VALUE' in o for o in gc.get_objects() if isinstance(o, dict) for o in o.values() if isinstance(o, str)): escaped('secret')",
    "races on renames": "import threading\ndef f():\n    for n in range(3000):\n        try: os.symlink(CANARY, 'r.png')\n        except OSError: pass\n        try: os.unlink('r.png'); open('r.png', 'w').close(); os.unlink('r.png')\n        except OSError: pass\nt = [threading.Thread(target=f) for _ in range(4)]; [x.start() for x in t]; [x.join() for x in t]",
}
PROGRAMS = {
    f"{kind}: {name}": code
    for kind, programs in (
        ("files", FILES),
        ("mounts", MOUNTS),
        ("network", NETWORK),
        ("processes", PROCESSES),
        ("kernel", KERNEL),
        ("exhaustion", EXHAUSTION),
        ("endings", ENDINGS),
        ("images", IMAGES),
        ("tampering", TAMPERING),
    )
    for name, code in programs.items()
}
