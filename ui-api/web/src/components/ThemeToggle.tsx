import { Button } from '@patternfly/react-core';
import MoonIcon from '@patternfly/react-icons/dist/esm/icons/moon-icon';
import SunIcon from '@patternfly/react-icons/dist/esm/icons/sun-icon';
import { useTheme } from '../state/theme';

export function ThemeToggle() {
  const [theme, toggle] = useTheme();
  const label = theme === 'dark' ? 'Use the light theme' : 'Use the dark theme';
  return (
    <Button
      variant="plain"
      aria-label={label}
      title={label}
      icon={theme === 'dark' ? <SunIcon /> : <MoonIcon />}
      onClick={toggle}
      className="ls-theme-toggle"
    />
  );
}
