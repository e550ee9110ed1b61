package kprobe

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

	slotTTY // a pointer; if it is NULL the next slots have no meaning
	slotTTYMajor
	slotTTYMinorStart
	slotTTYIndex

	slotNSProxy // a pointer; if it is NULL the next slots have no meaning
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

	slotCred // a pointer
	slotWhichID
	slotByExec

	slotRootDentry
	slotRootMnt
	slotCwd                             // a path
	slotExe       = slotCwd + pathSlots // a path
	slotCgroup    = slotExe + pathSlots // pointers, and a last one
	slotGroupName = slotCgroup + cgroupLevels + 1
	slotArgv      = slotGroupName + cgroupLevels // chunks of the arguments, not numbers

	// The next are of the ending thread; the others of its EXIT are of the leader.
	slotOwnComm           = slotArgv + chunks
	slotOwnUID            = slotOwnComm + (slotComm2 - slotComm + 1)
	slotOwnCapInheritable = slotOwnUID + (slotEGID - slotUID + 1)

	// The exit signal of the leader.
	slotLeaderSignal = slotOwnCapInheritable + (slotCapAmbient - slotCapInheritable + 1)
	slotParentTID    = slotLeaderSignal + 1
	slotLoginUID     = slotParentTID + 1
	slotAuditSession = slotLoginUID + 1

	slotExeBefore  = slotAuditSession + 1 // slotExeCtimeNs before the others are read
	slotExeMode    = slotExeBefore + 1    // the lower half
	slotExeUID     = slotExeMode + 1
	slotExeGID     = slotExeUID + 1
	slotExeDevice  = slotExeGID + 1
	slotExeInode   = slotExeDevice + 1
	slotExeLinks   = slotExeInode + 1
	slotExeCtime   = slotExeLinks + 1
	slotExeCtimeNs = slotExeCtime + 1
	slotExeMagic   = slotExeCtimeNs + 1 // of the file system, on kernels of addMagic

	slotRequest = slotExeMagic + 1 // of ptrace(2)

	slotUserNS   = slotRequest + 1
	slotCgroupNS = slotUserNS + 1
	slotTimeNS   = slotCgroupNS + 1
	slotPIDLevel = slotTimeNS + 1   // of the pid namespace: 0 is the initial one
	slotPIDs     = slotPIDLevel + 1 // on each level from 1: the pid, and the namespace

	// The usage of the ending thread, its leader, and the released threads of the group.
	slotThreads     = slotPIDs + 2*pidLevels // of the group, which are not released
	slotOwnUse      = slotThreads + 1
	slotLeaderUse   = slotOwnUse + useSlots
	slotReleasedUse = slotLeaderUse + useSlots
	slotShownTimes  = slotReleasedUse + useSlots // user and system time
	slotPeakRSS     = slotShownTimes + 2
	slotChildTimes  = slotPeakRSS + 1    // user and system time of the children waited for
	slotChildRSS    = slotChildTimes + 2 // of these
	slotDir         = slotChildRSS + 1   // the descriptor that an exec begins at
	slotResult      = slotDir + 1        // of a system call

	// The same pointers after all values behind them were read. If they have changed by then,
	// these values have no meaning: a failed fetch leaves the value of an earlier record.
	slotTTYAfter     = slotResult + 1
	slotNSProxyAfter = slotTTYAfter + 1

	slotBeforeUID = slotNSProxyAfter + 1 // of before an exec, in the order of struct cred
	// On each level of slotPIDs, the value set by reboot(2).
	slotReboots = slotBeforeUID + (slotEGID - slotUID + 1)
	numSlots    = slotReboots + pidLevels
)

// The slots of a path are, for each mount on the way up: the mount (vfsmount of the first, struct
// mount of the others), its root, and the mount above it; then the dentries from the bottom up and
// their names. There is one more dentry than names.
const (
	pathMounts = 4
	pathLevels = 7 // of each; the room in a fetch argument bounds them, too

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

// pidLevels is how many pid namespaces below the initial one are fetched.
const pidLevels = 2

// The slots of used resources.
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

// cgroupLevels is how many components of a cgroup path are fetched.
const cgroupLevels = 7
