// A library that the program opens. It needs another one in its own folder.
extern int of_program;
int program_adds(int value);
int needed(void);
int plugin_adds(int value);

static int calls;

int plugin_adds(int value) {
    return needed() * (of_program == program_adds(0)) * (1000 * ++calls + program_adds(value));
}
