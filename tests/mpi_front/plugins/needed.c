// A library that the plugin needs.
int needed(void);
int needed(void) {
    return 1;
}
