// csrc/base/thread_annotations.h - which lock guards what, checked by clang's -Wthread-safety.
//
// Other compilers see nothing. Annotate fields with DENDRITE_GUARDED_BY(mutex_), private methods
// that need the lock with DENDRITE_REQUIRES(mutex_); csrc/base/mutex.h has the annotated lock
// types.
#pragma once

#if defined(__clang__)
#define DENDRITE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define DENDRITE_THREAD_ATTRIBUTE(x)
#endif

#define DENDRITE_CAPABILITY(x) DENDRITE_THREAD_ATTRIBUTE(capability(x))
#define DENDRITE_SCOPED_CAPABILITY DENDRITE_THREAD_ATTRIBUTE(scoped_lockable)
#define DENDRITE_GUARDED_BY(x) DENDRITE_THREAD_ATTRIBUTE(guarded_by(x))
#define DENDRITE_REQUIRES(...) DENDRITE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define DENDRITE_EXCLUDES(...) DENDRITE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define DENDRITE_ACQUIRE(...) DENDRITE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define DENDRITE_RELEASE(...) DENDRITE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define DENDRITE_NO_THREAD_SAFETY_ANALYSIS DENDRITE_THREAD_ATTRIBUTE(no_thread_safety_analysis)
