"""List numbers of Linux system calls: name -> (x86_64, aarch64); None for a machine that lacks the call."""

from __future__ import annotations

MACHINES = {"x86_64": 0, "aarch64": 1}  # column of each machine
AUDIT_ARCHITECTURE = (0xC000003E, 0xC00000B7)
LOWEST_FOREIGN = (0x40000000, None)  # numbers from here on are another calling convention's (x32)

# Mode, owner, times and attributes of files: Landlock leaves them open, and a filter sees no paths.
ATTRIBUTES = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
# Other processes' memory, descriptors and priority, and signals beyond kill.
OTHERS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_send_signal": (424, 424),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
}
# The system itself: mounts and name spaces, kernel interfaces that widen what a process can reach, clocks.
SYSTEM = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "iopl": (172, None),
    "ioperm": (173, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "fanotify_init": (300, 262),
    "syslog": (103, 116),
}
# New processes and programs; clone makes threads too, which its flags tell, and clone3's flags are out of a filter's sight.
PROCESSES = {"fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "tkill": (200, 130)}
CLONE, CLONE3, KILL, TGKILL = (56, 220), (435, 435), (62, 129), (234, 131)
SOCKET, PRLIMIT = (41, 198), (302, 261)
SCHEDULING = ((203, 122), (144, 119), (142, 118), (314, 274))  # sched_setaffinity, _setscheduler, _setparam, _setattr of a process
