"""Golden bytes of iSER sessions: of each kind of request iSER's header and iSCSI's header, the same of the answer, and of logins
their texts. iser_trace.py says what the capital letters are.

They are what ib_iser and LIO, and libiscsi and LIO, say to each other, but for what differs from target to target: values in the
answers to logins, residual counts, and sense data, of which LIO sends 96 bytes and Lockstep the 18 that mean something."""
import dataclasses

NO_MEMORY = "10000000 00000000 00000000 00000000 00000000 00000000 00000000 "
FROM_MEMORY = "18000000 WWWWWWWW XXXXXXXX XXXXXXXX 00000000 00000000 00000000 "
INTO_MEMORY = "14000000 00000000 00000000 00000000 RRRRRRRR AAAAAAAA AAAAAAAA "
GOOD = NO_MEMORY + "21800000 00000000 00000000 00000000 TTTTTTTT 00000000 SSSSSSSS PPPPPPPP MMMMMMMM 00000000 00000000 00000000"
CHECK_CONDITION = NO_MEMORY + ("21800002 00000014 00000000 00000000 TTTTTTTT 00000000 SSSSSSSS PPPPPPPP MMMMMMMM "
                               "00000000 00000000 00000000")
NOTHING_CAME = NO_MEMORY + ("21820002 00000014 00000000 00000000 TTTTTTTT 00000000 SSSSSSSS PPPPPPPP MMMMMMMM "
                            "00000000 00000000 00001000")


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    request: str
    answer: str = GOOD
    invalidated: str | None = None  # the field with the key
    moved: int = 0                  # bytes by RDMA Read or Write
    answer_data: str = ""
    text: str = ""                  # keys and values; then not the bytes of data are golden, but these
    answer_text: str = ""
    by: str = "sg_raw"              # whoever provokes it

    @property
    def way(self):
        return {"0181": "", "01c1": "in", "01a1": "out"}[self.request.split()[7][:4]]

    @property
    def length(self):
        """ExpectedDataTransferLength."""
        return int(self.request.split()[12], 16)

    @property
    def cdb(self):
        return bytes.fromhex("".join(self.request.split()[15:]))


def kind(name, header, bhs, **more):
    return Kind(name, header + bhs, **more)


def login(bhs, text, answer_text):
    """In one step, with the same ISID in the answer, and a session handle (H)."""
    isid, rest = bhs.split()[2:4]
    answer = (f"23870000 00000LLL {isid} {rest[:4]}HHHH TTTTTTTT 00000000 SSSSSSSS PPPPPPPP MMMMMMMM "
              "00000000 00000000 00000000")
    return Kind("Login", NO_MEMORY + bhs, NO_MEMORY + answer, text=text, answer_text=answer_text, by="client")


LINUX_LOGIN = "43870000 00000LLL 00023d00 000I0000 TTTTTTTT 00000000 CCCCCCCC 00000000 00000000 00000000 00000000 00000000"
LIBISCSI_LOGIN = "43870000 00000LLL 80IIIIII 00000000 TTTTTTTT 00000000 CCCCCCCC 00000001 00000000 00000000 00000000 00000000"

DISCOVERY = (
    login(LINUX_LOGIN,
          "InitiatorName={initiator} InitiatorAlias=initiator SessionType=Discovery HeaderDigest=None DataDigest=None "
          "DefaultTime2Wait=2 DefaultTime2Retain=0 IFMarker=No OFMarker=No ErrorRecoveryLevel=0 MaxRecvDataSegmentLength=8192",
          "HeaderDigest=None DataDigest=None DefaultTime2Wait=2 DefaultTime2Retain=0 IFMarker=Reject OFMarker=Reject "
          "ErrorRecoveryLevel=0"),
    Kind("SendTargets", NO_MEMORY +
         "04800000 00000010 00000000 00000000 TTTTTTTT ffffffff CCCCCCCC EEEEEEEE 00000000 00000000 00000000 00000000",
         answer=NO_MEMORY + "24800000 000000LL 00000000 00000000 TTTTTTTT ffffffff SSSSSSSS PPPPPPPP MMMMMMMM "
                            "00000000 00000000 00000000",
         text="SendTargets=All", answer_text="TargetName={target} TargetAddress={portal},1", by="client"),
)

LINUX = (
    login(LINUX_LOGIN,
          "InitiatorName={initiator} InitiatorAlias=initiator TargetName={target} SessionType=Normal DefaultTime2Wait=2 "
          "DefaultTime2Retain=0 IFMarker=No OFMarker=No ErrorRecoveryLevel=0 InitialR2T=No ImmediateData=Yes "
          "MaxBurstLength=16776192 FirstBurstLength=262144 MaxOutstandingR2T=1 MaxConnections=1 DataPDUInOrder=Yes "
          "DataSequenceInOrder=Yes InitiatorRecvDataSegmentLength=262144 TargetRecvDataSegmentLength=8192 RDMAExtensions=Yes",
          "DefaultTime2Wait=2 DefaultTime2Retain=0 IFMarker=Reject OFMarker=Reject ErrorRecoveryLevel=0 InitialR2T=Yes "
          "ImmediateData=Yes MaxBurstLength=1048576 FirstBurstLength=8192 MaxOutstandingR2T=1 MaxConnections=1 "
          "DataPDUInOrder=Yes DataSequenceInOrder=Yes InitiatorRecvDataSegmentLength=262144 TargetRecvDataSegmentLength=8192 "
          "RDMAExtensions=Yes TargetPortalGroupTag=1 TargetAlias=test"),
    kind("INQUIRY", INTO_MEMORY,
         "01c10000 00000000 00000000 00000000 TTTTTTTT 00000024 CCCCCCCC EEEEEEEE 12000000 24000000 00000000 00000000",
         invalidated="R", moved=36, by="client"),
    kind("WRITE (10), 4 KiB: all immediate", NO_MEMORY,
         "01a10000 00001000 00000000 00000000 TTTTTTTT 00001000 CCCCCCCC EEEEEEEE 2a000000 00080000 08000000 00000000"),
    kind("TEST UNIT READY", NO_MEMORY,
         "01810000 00000000 00000000 00000000 TTTTTTTT 00000000 CCCCCCCC EEEEEEEE 00000000 00000000 00000000 00000000"),
    kind("WRITE (10), 8 KiB: the most that is immediate", NO_MEMORY,
         "01a10000 00002000 00000000 00000000 TTTTTTTT 00002000 CCCCCCCC EEEEEEEE 2a000000 00100000 10000000 00000000"),
    kind("WRITE (10), 12 KiB: 8 KiB immediate, 4 KiB by RDMA Read", FROM_MEMORY,
         "01a10000 00002000 00000000 00000000 TTTTTTTT 00003000 CCCCCCCC EEEEEEEE 2a000000 00200000 18000000 00000000",
         invalidated="W", moved=4096),
    kind("WRITE (10), 64 KiB: 8 KiB immediate, 56 KiB by RDMA Read", FROM_MEMORY,
         "01a10000 00002000 00000000 00000000 TTTTTTTT 00010000 CCCCCCCC EEEEEEEE 2a000000 00800000 80000000 00000000",
         invalidated="W", moved=57344),
    kind("READ (10), 64 KiB by RDMA Write", INTO_MEMORY,
         "01c10000 00000000 00000000 00000000 TTTTTTTT 00010000 CCCCCCCC EEEEEEEE 28000000 00800000 80000000 00000000",
         invalidated="R", moved=65536),
    kind("READ (10), 4 KiB by RDMA Write", INTO_MEMORY,
         "01c10000 00000000 00000000 00000000 TTTTTTTT 00001000 CCCCCCCC EEEEEEEE 28000000 00080000 08000000 00000000",
         invalidated="R", moved=4096),
    kind("SYNCHRONIZE CACHE (10)", NO_MEMORY,
         "01810000 00000000 00000000 00000000 TTTTTTTT 00000000 CCCCCCCC EEEEEEEE 35000000 00000000 00000000 00000000"),
    kind("PERSISTENT RESERVE OUT: REGISTER", NO_MEMORY,
         "01a10000 00000018 00000000 00000000 TTTTTTTT 00000018 CCCCCCCC EEEEEEEE 5f000000 00000000 18000000 00000000"),
    kind("PERSISTENT RESERVE IN: READ KEYS", INTO_MEMORY,
         "01c10000 00000000 00000000 00000000 TTTTTTTT 00000010 CCCCCCCC EEEEEEEE 5e000000 00000000 10000000 00000000",
         invalidated="R", moved=16),
    kind("COMPARE AND WRITE", NO_MEMORY,
         "01a10000 00000400 00000000 00000000 TTTTTTTT 00000400 CCCCCCCC EEEEEEEE 89000000 00000000 00400000 00010000"),
    kind("COMPARE AND WRITE: a miscompare", NO_MEMORY,
         "01a10000 00000400 00000000 00000000 TTTTTTTT 00000400 CCCCCCCC EEEEEEEE 89000000 00000000 00480000 00010000",
         answer=CHECK_CONDITION, answer_data="0012 f0000e 00000000 0a 00000000 1d00 00000000"),
    kind("UNMAP", NO_MEMORY,
         "01a10000 00000018 00000000 00000000 TTTTTTTT 00000018 CCCCCCCC EEEEEEEE 42000000 00000000 18000000 00000000"),
    kind("WRITE SAME (16)", NO_MEMORY,
         "01a10000 00000200 00000000 00000000 TTTTTTTT 00000200 CCCCCCCC EEEEEEEE 93000000 00000000 01000000 00080000"),
    kind("READ (10) beyond the end: CHECK CONDITION", INTO_MEMORY,
         "01c10000 00000000 00000000 00000000 TTTTTTTT 00001000 CCCCCCCC EEEEEEEE 28007fff ff000000 08000000 00000000",
         answer=NOTHING_CAME, invalidated="R", answer_data="0012 700005 00000000 0a 00000000 2100 00c00002"),
    kind("NOP-Out", NO_MEMORY,
         "40800000 00000000 00000000 00000000 TTTTTTTT ffffffff CCCCCCCC EEEEEEEE 00000000 00000000 00000000 00000000",
         answer=NO_MEMORY + "20800000 00000000 00000000 00000000 TTTTTTTT ffffffff SSSSSSSS PPPPPPPP MMMMMMMM "
                            "00000000 00000000 00000000", by="client"),
    kind("LOGICAL UNIT RESET", NO_MEMORY,
         "42850000 00000000 00000000 00000000 TTTTTTTT ffffffff CCCCCCCC EEEEEEEE 00000000 00000000 00000000 00000000",
         answer=NO_MEMORY + "22800000 00000000 00000000 00000000 TTTTTTTT 00000000 SSSSSSSS PPPPPPPP MMMMMMMM "
                            "00000000 00000000 00000000", by="client"),
    kind("Logout", NO_MEMORY,
         "46800000 00000000 00000000 00000000 TTTTTTTT 00000000 CCCCCCCC EEEEEEEE 00000000 00000000 00000000 00000000",
         answer=NO_MEMORY + "26800000 00000000 00000000 00000000 TTTTTTTT 00000000 SSSSSSSS PPPPPPPP MMMMMMMM "
                            "00000000 00020000 00000000", by="client"),
)

LOGOUT = LINUX[-1]

# An initiator that was told to send no immediate data.
NOTHING_IMMEDIATE = (
    login(LINUX_LOGIN, *(text.replace("ImmediateData=Yes", "ImmediateData=No")
                         for text in (LINUX[0].text, LINUX[0].answer_text))),
    kind("WRITE (10), 4 KiB: all by RDMA Read", FROM_MEMORY,
         "01a10000 00000000 00000000 00000000 TTTTTTTT 00001000 CCCCCCCC EEEEEEEE 2a000000 00080000 08000000 00000000",
         invalidated="W", moved=4096),
    kind("WRITE (10), 64 KiB: all by RDMA Read", FROM_MEMORY,
         "01a10000 00000000 00000000 00000000 TTTTTTTT 00010000 CCCCCCCC EEEEEEEE 2a000000 00800000 80000000 00000000",
         invalidated="W", moved=65536),
    LOGOUT,
)


def libiscsi(tool, *kinds):
    """It takes no invalidation. The first command after a login is told of it by a unit attention."""
    keys = ("InitiatorName=iqn.2007-10.com.github:sahlberg:libiscsi:" + tool + " TargetName={target} SessionType=Normal "
            "HeaderDigest=None,CRC32C DataDigest=None InitialR2T=No ImmediateData=Yes MaxBurstLength=262144 "
            "FirstBurstLength=262144 DefaultTime2Wait=2 DefaultTime2Retain=0 MaxOutstandingR2T=1 ErrorRecoveryLevel=0 "
            "IFMarker=No OFMarker=No "
            "MaxConnections=1 MaxRecvDataSegmentLength=8192 DataPDUInOrder=Yes DataSequenceInOrder=Yes RDMAExtensions=Yes "
            "InitiatorRecvDataSegmentLength=8192 TargetRecvDataSegmentLength=8192")
    answer = ("HeaderDigest=None DataDigest=None InitialR2T=Yes ImmediateData=Yes MaxBurstLength=262144 FirstBurstLength=8192 "
              "DefaultTime2Wait=2 DefaultTime2Retain=0 MaxOutstandingR2T=1 ErrorRecoveryLevel=0 IFMarker=Reject OFMarker=Reject "
              "MaxConnections=1 DataPDUInOrder=Yes DataSequenceInOrder=Yes RDMAExtensions=Yes "
              "InitiatorRecvDataSegmentLength=8192 TargetRecvDataSegmentLength=8192 TargetPortalGroupTag=1 TargetAlias=test")
    ready = next(each for each in LINUX if each.name == "TEST UNIT READY")
    attention = dataclasses.replace(ready, name="TEST UNIT READY: unit attention", answer=CHECK_CONDITION,
                                    answer_data="0012 700006 00000000 0a 00000000 2900 00000000")
    return login(LIBISCSI_LOGIN, keys, answer), attention, ready, *kinds, LOGOUT


@dataclasses.dataclass(frozen=True)
class Session:
    """What each end says of itself when they connect (80: no zero-based addresses, 40: no invalidation), and what follows."""
    name: str
    private_data: str
    kinds: tuple


SESSIONS = (
    Session("iscsiadm's discovery", "80000000", DISCOVERY),
    Session("ib_iser", "80000000", LINUX),
    Session("ib_iser without immediate data", "80000000", NOTHING_IMMEDIATE),
    Session("iscsi-inq", "c0000000", libiscsi("iscsi-inq", kind(
        "INQUIRY, 64 bytes", INTO_MEMORY,
        "01c10000 00000000 00000000 00000000 TTTTTTTT 00000040 CCCCCCCC EEEEEEEE 12000000 40000000 00000000 00000000", moved=64))),
    Session("iscsi-readcapacity16", "c0000000", libiscsi("iscsi-readcapacity16", kind(
        "READ CAPACITY (16)", INTO_MEMORY,
        "01c10000 00000000 00000000 00000000 TTTTTTTT 00000020 CCCCCCCC EEEEEEEE 9e100000 00000000 00000000 00200000", moved=32))),
)
