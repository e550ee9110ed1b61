/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The standard streams of a task at its exec. An exec ends the sharing of files with other tasks,
 * so the current task is the only one that can replace its streams.
 */
#ifndef QUARK_STDIO_H
#define QUARK_STDIO_H

/* linux/magic.h and linux/stat.h */
#define SOCKFS_MAGIC 0x534f434b
#define TMPFS_MAGIC 0x01021994
#define HUGETLBFS_MAGIC 0x958458f6
#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFCHR 0020000

/* Read the address family of a socket, which lies before its inode. */
static __always_inline int read_family(__u16 *family, struct inode *inode)
{
	struct socket_alloc *alloc = (void *)inode - OFFSET(struct socket_alloc, vfs_inode);
	struct sock *sk = 0;

	return bpf_core_read(&sk, sizeof(sk), &alloc->socket.sk) || !sk ||
	       bpf_core_read(family, sizeof(*family), &sk->__sk_common.skc_family);
}

/*
 * Read one stream from the open file and its inode at addresses, 0 for a closed descriptor. before
 * is the address of the inode of the previous stream. Returns 1 if the stream is known.
 */
__attribute__((noinline)) int read_stream(__u32 index, __u64 fd, __u64 address, __u64 at, __u64 before)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	struct file *file = (void *)address;
	struct inode *inode = (void *)at;
	struct super_block *sb = 0;
	unsigned long magic = 0;
	struct stream *to;
	__u64 place;
	__u64 span[10]; /* from i_mode to i_rdev */

	if (!s || fd >= STREAMS || !bpf_core_field_exists(inode->i_rdev) || !bpf_core_field_exists(sb->s_magic) ||
	    !bpf_core_field_exists(((struct socket_alloc *)0)->vfs_inode))
		return 0;
	place = ((s->used + 7) & ~7ULL) + fd * sizeof(*to);
	if (place > DATA_MASK - sizeof(*to))
		return 0;
	to = (void *)&s->record.data[place];
	if (fd && at == before) {
		*to = to[-1];
		return 1;
	}
	to->magic = to->mode = to->detail = 0;
	if (!inode)
		return 1;
	if (READ_SPAN(span, inode, i_mode) || FROM_SPAN(&to->mode, span, inode, i_mode, i_mode) || !to->mode ||
	    FROM_SPAN(&to->inode, span, inode, i_mode, i_ino) ||
	    FROM_SPAN(&to->rdev, span, inode, i_mode, i_rdev) ||
	    FROM_SPAN(&sb, span, inode, i_mode, i_sb) || !is_numbered(sb) ||
	    bpf_core_read(&to->device, 4, &sb->s_dev))
		return 0;
	if ((to->mode & S_IFMT) == S_IFIFO || (to->mode & S_IFMT) == S_IFCHR)
		return 1;
	if (bpf_core_read(&magic, sizeof(magic), &sb->s_magic) || (magic == SOCKFS_MAGIC && read_family(&to->detail, inode)))
		return 0;
	to->magic = magic;
	if (magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC) {
		struct dentry *dentry = 0, *parent = 0;

		bpf_core_read(&dentry, sizeof(dentry), &file->f_path.dentry);
		bpf_core_read(&parent, sizeof(parent), &dentry->d_parent);
		to->detail = dentry == parent;
	}
	return 1;
}

/* Append the streams of the current task, at an address. */
__attribute__((noinline)) int append_stdio(__u32 index, __u64 address)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	struct task_struct *task = (void *)address;
	struct files_struct *files = 0;
	struct fdtable *table = 0;
	__u64 fds = 0, file[STREAMS] = {}, inode[STREAMS] = {};

	if (!s || !bpf_core_field_exists(files->fdt))
		return 0;
	bpf_core_read(&files, sizeof(files), &task->files);
	bpf_core_read(&table, sizeof(table), &files->fdt);
	bpf_core_read(&fds, sizeof(fds), &table->fd);
	/* A table has at least 64 places. */
	if (!fds || read_kernel(file, sizeof(file), (void *)fds))
		return 0;
#pragma unroll
	for (int fd = 0; fd < STREAMS; fd++)
		if (file[fd])
			bpf_core_read(&inode[fd], 8, &((struct file *)file[fd])->f_inode);
	if (read_stream(index, 0, file[0], inode[0], 0) && read_stream(index, 1, file[1], inode[1], inode[0]) &&
	    read_stream(index, 2, file[2], inode[2], inode[1])) {
		s->used = ((s->used + 7) & ~7ULL) + STREAMS * sizeof(struct stream);
		s->record.event.known |= KNOWN_STDIO;
	}
	return 0;
}

#endif
