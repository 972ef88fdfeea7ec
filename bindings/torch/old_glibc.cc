// SPDX-License-Identifier: Apache-2.0
// Keeps a library that was built on a new glibc loadable on the old ones that PyTorch serves.
//
// The reference counts of libstdc++'s headers ask glibc whether the process has a second thread,
// by a variable that glibc has from 2.32 on: the only symbol of the operators newer than 2.14, and
// PyTorch's own wheels need 2.28. This constant answers in its place: a process with PyTorch has
// threads. A file of its own, without a header: glibc's declares it as a variable.

extern "C" {
extern const char __libc_single_threaded __attribute__((visibility("hidden")));
const char __libc_single_threaded = 0;
}
