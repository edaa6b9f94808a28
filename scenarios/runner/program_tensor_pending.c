// Stands in for program_tensor.c until collectives on local tensors are there.
#include "scenarios/runner/program.h"

int ls_program__create_tensors(ls_program *program) {
    return program->scenario->tensor_count == 0
               ? LS_OK
               : LS_FAIL(LS_ERR_UNSUPPORTED, "tensors in programs are not supported yet");
}

int ls_program__tensor_step(ls_program *program, const ls_scenario_step *step) {
    (void)program;
    return LS_FAIL(LS_ERR_UNSUPPORTED, "step %s is not supported yet", step->name);
}
