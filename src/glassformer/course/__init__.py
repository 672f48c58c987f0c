"""The course: exercises with blanks and their grader. The lessons are in docs/course."""
