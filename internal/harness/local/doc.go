// Package local keeps kernels of any distribution, which are added by hand, beside those of the
// catalogue: images, and what their packages say of them. They live in kernel_images/local, which is
// not committed:
//
//	NAME       the image, or a link to one
//	NAME.json  what was known of it when it was added; an image that was just put there has none
//	NAME.btf   the types that quark reads, of a kernel that was built without
package local
