"""Problems: what the stages of one operator share (inputs, reference, shapes)."""
