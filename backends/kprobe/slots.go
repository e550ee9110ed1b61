package kprobe

import "github.com/quark-linux/quark/engine"

// slot names a value in the records of one event.
type slot uint16

const (
	slotTID slot = iota
	slotTGID
	slotExitSignal // -1 in all threads but the group's leader
	slotStart
	slotPPID
	slotPGID
	slotSID

	slotUID // in the order of struct cred
	slotGID
	slotSUID
	slotSGID
	slotEUID
	slotEGID

	slotCapInheritable // in the order of struct cred
	slotCapPermitted
	slotCapEffective
	slotCapBounding
	slotCapAmbient

	slotTTY // pointer; if it is NULL, the following slots have no meaning
	slotTTYMajor
	slotTTYMinorStart
	slotTTYIndex

	slotNSProxy // pointer; if it is NULL, the following slots have no meaning
	slotUTSNS
	slotIPCNS
	slotMntNS
	slotNetNS

	slotComm // 16 bytes
	slotComm2

	slotGroupDead // not 0 if no thread of the group is alive
	slotLive      // number of threads that are alive
	slotSignalFlags
	slotGroupCode
	slotLeaderCode
	slotLeaderState
	slotOwnCode

	slotArgStart
	slotArgEnd
	slotExiting

	slotTask // address of the task
	slotWhichID
	slotByExec

	slotRootDentry
	slotRootMnt
	slotCwd                             // a path
	slotExe       = slotCwd + pathSlots // a path
	slotCgroup    = slotExe + pathSlots // pointers, and a last name
	slotGroupName = slotCgroup + cgroupLevels + 1
	slotArgv      = slotGroupName + cgroupLevels // chunks of the arguments, not numbers

	// The following slots are of the exiting thread. The other slots of its EXIT are of the
	// leader.
	slotOwnComm           = slotArgv + chunks
	slotOwnUID            = slotOwnComm + (slotComm2 - slotComm + 1)
	slotOwnCapInheritable = slotOwnUID + (slotEGID - slotUID + 1)

	// Exit signal of the leader.
	slotLeaderSignal = slotOwnCapInheritable + (slotCapAmbient - slotCapInheritable + 1)
	slotParentTID    = slotLeaderSignal + 1
	slotLoginUID     = slotParentTID + 1
	slotAuditSession = slotLoginUID + 1

	slotExeBefore  = slotAuditSession + 1 // slotExeCtimeNs, fetched before the others
	slotExeMode    = slotExeBefore + 1    // the lower half
	slotExeUID     = slotExeMode + 1
	slotExeGID     = slotExeUID + 1
	slotExeDevice  = slotExeGID + 1
	slotExeInode   = slotExeDevice + 1
	slotExeLinks   = slotExeInode + 1
	slotExeCtime   = slotExeLinks + 1
	slotExeCtimeNs = slotExeCtime + 1
	slotExeMagic   = slotExeCtimeNs + 1 // of the file system, if addMagic fetches it

	slotRequest = slotExeMagic + 1 // request of ptrace(2)

	slotUserNS   = slotRequest + 1
	slotCgroupNS = slotUserNS + 1
	slotTimeNS   = slotCgroupNS + 1
	slotPIDLevel = slotTimeNS + 1   // of the pid namespace; 0 is the initial one
	slotPIDs     = slotPIDLevel + 1 // for each level from 1: the pid and the namespace

	// The usage of the exiting thread, of its leader, and of the group's released threads.
	slotThreads     = slotPIDs + 2*pidLevels // number of the group's unreleased threads
	slotOwnUse      = slotThreads + 1
	slotLeaderUse   = slotOwnUse + useSlots
	slotReleasedUse = slotLeaderUse + useSlots
	slotShownTimes  = slotReleasedUse + useSlots // user and system time
	slotPeakRSS     = slotShownTimes + 2
	slotChildTimes  = slotPeakRSS + 1    // user and system time of the children waited for
	slotChildRSS    = slotChildTimes + 2 // of the children waited for
	slotDir         = slotChildRSS + 1   // the descriptor from which an exec resolves its path
	slotResult      = slotDir + 1        // of a system call

	// The same pointers, fetched after all values behind them. If a pointer has changed, these
	// values have no meaning: a failed fetch leaves the value of an earlier record.
	slotTTYAfter     = slotResult + 1
	slotNSProxyAfter = slotTTYAfter + 1

	slotBeforeUID = slotNSProxyAfter + 1 // the ids before an exec, in the order of struct cred
	// For each level of slotPIDs, the value set by reboot(2).
	slotReboots     = slotBeforeUID + (slotEGID - slotUID + 1)
	slotAtomicFlags = slotReboots + pidLevels
	slotSeccomp     = slotAtomicFlags + 1
	slotExecOwner   = slotSeccomp + 1 // owner of the mutex that each execve holds
	// The addresses of the cgroups before and after a move.
	slotFromCgroup = slotExecOwner + 1
	slotToCgroup   = slotFromCgroup + 1
	// The namespaces before a change, in the order of engine.NSNames, and the new pid namespace
	// of future children.
	slotOldNS    = slotToCgroup + 1
	slotNewPIDNS = slotOldNS + slot(len(engine.NSNames))
	slotPIDType  = slotNewPIDNS + 1 // of change_pid
	slotNewPGID  = slotPIDType + 1
	slotStdio    = slotNewPGID + 1 // for each standard stream
	// Of a process that ends: the head of the list of its children, and the word with
	// is_child_subreaper and has_child_subreaper.
	slotChildren   = slotStdio + streams*streamSlots
	slotSubreapers = slotChildren + 1
	numSlots       = slotSubreapers + 1
)

// The slots of a standard stream, which is closed if its file is 0.
const (
	streamFile = iota
	streamMode // the lower half
	streamInode
	streamRdev
	streamDevice
	streamMagic  // of the file system
	streamFamily // of a socket, the lower half
	streamDentry
	streamParent // of the dentry
	streamSlots

	streams = 3
)

// The slots of a path are, for each mount on the way up: the mount (vfsmount of the first, struct
// mount of the others), its root, and its parent mount. The dentries from the bottom up and their
// names follow. There is one more dentry than names.
const (
	pathMounts = 4
	pathLevels = 7 // for each mount; the length limit of a fetch argument bounds them, too

	pathMnt      = 0
	pathMntRoot  = pathMnt + pathMounts
	pathDentries = pathMntRoot + pathMounts
	pathNames    = pathDentries + pathMounts*(pathLevels+1)
	pathSlots    = pathNames + pathMounts*(pathLevels+1)
)

func pathMntSlot(base slot, mount int) slot     { return base + pathMnt + slot(mount) }
func pathMntRootSlot(base slot, mount int) slot { return base + pathMntRoot + slot(mount) }
func pathDentrySlot(base slot, mount, level int) slot {
	return base + pathDentries + slot(mount*(pathLevels+1)+level)
}
func pathNameSlot(base slot, mount, level int) slot {
	return base + pathNames + slot(mount*(pathLevels+1)+level)
}

// pidLevels is the number of pid namespaces below the initial one that are fetched.
const pidLevels = 2

// The slots of resource usage.
const (
	useUser = iota
	useSystem
	useRun
	useRChar
	useWChar
	useReadBytes
	useWriteBytes
	useSlots
)

// cgroupLevels is the number of components of a cgroup path that are fetched.
const cgroupLevels = 7
