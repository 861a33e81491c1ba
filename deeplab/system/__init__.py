"""The machine: memory, processors, processes, interrupts."""
