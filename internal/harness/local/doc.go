// Package local lists and adds kernels of any distribution, in addition to those of the catalogue.
// They are in kernel_images/local, which is not committed:
//
//	NAME       the image, or a link to one
//	NAME.json  the description that Add wrote; an image that was put there by hand has none
//	NAME.btf   the types of a kernel that was built without, in a form that QUARK_BTF_PATH takes
package local
