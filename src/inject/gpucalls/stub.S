/* The stubs and what they share (gpucall.h). A stub is 16 bytes: it names its entry and goes on. */
#define STUBS 4096
#define ENTRY 64
#define REAL 8
#define WORDS 16
#define ALWAYS 20

#ifdef __x86_64__

    .text
    .p2align 4
    .globl gpucall_stubs
    .hidden gpucall_stubs
    .type gpucall_stubs, @function
gpucall_stubs:
    .cfi_startproc
    .set i, 0
    .rept STUBS
    endbr64
    lea gpucall_entries + i * ENTRY(%rip), %r11
    .byte 0xe9 /* jmp, always with 32 bits, so that every stub has 16 bytes */
    .long gpucall_enter - . - 4
    .set i, i + 1
    .endr
    .cfi_endproc
    .size gpucall_stubs, . - gpucall_stubs

/* Below %rbp: struct gpucall_frame from -64. */
    .p2align 4
    .type gpucall_enter, @function
gpucall_enter:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    sub $64, %rsp
    mov %rdi, -64(%rbp)
    mov %rsi, -56(%rbp)
    mov %rdx, -48(%rbp)
    mov %rcx, -40(%rbp)
    mov %r8, -32(%rbp)
    mov %r9, -24(%rbp)
    movq $0, -16(%rbp)
    mov %r11, -8(%rbp)
    mov WORDS(%r11), %r10d
    test %r10d, %r10d
    jne 3f
1:  call *REAL(%r11)
    .globl gpucall_returned
    .hidden gpucall_returned
gpucall_returned:
    mov -8(%rbp), %r11
    mov ALWAYS(%r11), %r10d
    or -16(%rbp), %r10
    jne 2f
    test %eax, %eax
    jne 2f
    leave
    .cfi_remember_state
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_restore_state
2:  lea -64(%rbp), %rsp
    push %rax
    push %r15
    push %r14
    push %r13
    push %r12
    push %rbx
    lea -64(%rbp), %rdi
    mov %rsp, %rsi
    mov %eax, %edx
    call gpucall_slow
    mov -72(%rbp), %rax
    leave
    .cfi_remember_state
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_restore_state
3:  lea (,%r10,8), %rax
    sub %rax, %rsp
4:  mov 8(%rbp,%r10,8), %rax
    mov %rax, -8(%rsp,%r10,8)
    dec %r10
    jne 4b
    xor %eax, %eax
    jmp 1b
    .cfi_endproc
    .size gpucall_enter, . - gpucall_enter

/* struct unwind_registers: as DWARF numbers them, the address last. */
    .p2align 4
    .globl gpucall_here
    .hidden gpucall_here
    .type gpucall_here, @function
gpucall_here:
    .cfi_startproc
    mov %rbx, 24(%rdi)
    mov %rbp, 48(%rdi)
    lea 8(%rsp), %rax
    mov %rax, 56(%rdi)
    mov %r12, 96(%rdi)
    mov %r13, 104(%rdi)
    mov %r14, 112(%rdi)
    mov %r15, 120(%rdi)
    mov (%rsp), %rax
    mov %rax, 136(%rdi)
    ret
    .cfi_endproc
    .size gpucall_here, . - gpucall_here

#elif defined(__aarch64__)

    .text
    .p2align 4
    .globl gpucall_stubs
    .hidden gpucall_stubs
    .type gpucall_stubs, %function
gpucall_stubs:
    .cfi_startproc
    .set i, 0
    .rept STUBS
    hint #34 /* bti c */
    adrp x16, gpucall_entries + i * ENTRY
    add x16, x16, :lo12:gpucall_entries + i * ENTRY
    b gpucall_enter
    .set i, i + 1
    .endr
    .cfi_endproc
    .size gpucall_stubs, . - gpucall_stubs

/* From x29: struct gpucall_frame. */
    .p2align 4
    .type gpucall_enter, %function
gpucall_enter:
    .cfi_startproc
    stp x29, x30, [sp, #-112]!
    .cfi_def_cfa_offset 112
    .cfi_offset 29, -112
    .cfi_offset 30, -104
    mov x29, sp
    .cfi_def_cfa_register 29
    stp x16, xzr, [x29, #16]
    stp x0, x1, [x29, #32]
    stp x2, x3, [x29, #48]
    stp x4, x5, [x29, #64]
    stp x6, x7, [x29, #80]
    ldr w17, [x16, #WORDS]
    cbnz w17, 3f
1:  ldr x17, [x16, #REAL]
    blr x17
    .globl gpucall_returned
    .hidden gpucall_returned
gpucall_returned:
    ldp x16, x9, [x29, #16]
    ldr w17, [x16, #ALWAYS]
    orr x17, x17, x9
    cbnz x17, 2f
    cbnz w0, 2f
    mov sp, x29
    ldp x29, x30, [sp], #112
    .cfi_remember_state
    .cfi_def_cfa 31, 0
    .cfi_restore 29
    .cfi_restore 30
    ret
    .cfi_restore_state
2:  mov sp, x29
    sub sp, sp, #96
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    str x0, [sp, #80]
    mov w2, w0
    mov x0, x29
    mov x1, sp
    bl gpucall_slow
    ldr x0, [sp, #80]
    mov sp, x29
    ldp x29, x30, [sp], #112
    .cfi_remember_state
    .cfi_def_cfa 31, 0
    .cfi_restore 29
    .cfi_restore 30
    ret
    .cfi_restore_state
3:  sub sp, sp, x17, lsl #3
    add x10, x29, #112
    mov x11, sp
4:  ldr x12, [x10], #8
    str x12, [x11], #8
    subs x17, x17, #1
    b.ne 4b
    b 1b
    .cfi_endproc
    .size gpucall_enter, . - gpucall_enter

    .p2align 4
    .globl gpucall_here
    .hidden gpucall_here
    .type gpucall_here, %function
gpucall_here:
    .cfi_startproc
    stp x19, x20, [x0, #152]
    stp x21, x22, [x0, #168]
    stp x23, x24, [x0, #184]
    stp x25, x26, [x0, #200]
    stp x27, x28, [x0, #216]
    stp x29, x30, [x0, #232]
    mov x9, sp
    str x9, [x0, #248]
    str x30, [x0, #264]
    ret
    .cfi_endproc
    .size gpucall_here, . - gpucall_here

#endif

    .section .note.GNU-stack, "", %progbits
