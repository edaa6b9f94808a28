// Part of cuda_runtime.h: multimem instructions, which lockstep-cuda-cc makes of PTX in asm.
#ifndef LS_DEVICE_INCLUDE_CUDA_MULTIMEM_H
#define LS_DEVICE_INCLUDE_CUDA_MULTIMEM_H

namespace lockstep {
template <class... T> struct first_of;
template <class T, class... Rest> struct first_of<T, Rest...> { typedef T type; };
template <class T> inline void set_bits(T *out, uint64_t value) {
    memcpy(out, &value, sizeof *out);
}
template <class... T>
inline void multimem_load(ls_cuda_multimem what, uint64_t address, T &...out) {
    uint64_t registers[sizeof...(T)] = {};
    what.bytes = (int)sizeof(typename first_of<T...>::type);
    what.count = (int)sizeof...(T);
    ls_cuda_multimem_do(&what, address, registers);
    size_t next = 0;
    (set_bits(&out, registers[next++]), ...);
}
template <class... T> inline void multimem_store(ls_cuda_multimem what, uint64_t address, T... in) {
    uint64_t registers[] = {bits(in)...};
    what.bytes = (int)sizeof(typename first_of<T...>::type);
    what.count = (int)sizeof...(T);
    ls_cuda_multimem_do(&what, address, registers);
}
}  // namespace lockstep

#endif
